"""Which vLLM: versions that have the architecture and the method, images, forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from specdeck.rules.model import Area, Breach, Severity, need
from specdeck.rules.versions import RELEASES, of_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("engine", "Engine version and image")
ANY = ">=0"
FIRST = {"qwen4_exp": ("0.29", "vllm#53896"), "glm5_next": ("0.30", "vllm#53906")}


@AREA.rule(
    "engine-no-version",
    Severity.ERROR,
    versions=ANY,
    reason="The specifier admits no vLLM version.",
    fix='write a range that contains a release, such as ">=0.32,<0.33"',
    evidence=("PEP 440",),
    stock=False,
)
def _no_version(ctx: Context) -> Iterator[Breach]:
    if not ctx.versions:
        yield Breach(("engine", "vllm"), f"{ctx.recipe.engine.vllm!r} admits no release that is known")


@AREA.rule(
    "engine-image-version",
    Severity.ERROR,
    versions=ANY,
    reason="The image's tag names a vLLM version that the recipe does not admit.",
    fix="change engine.image or engine.vllm so that they agree",
    evidence=("the tags of vllm/vllm-openai are vLLM's versions",),
)
def _image_version(ctx: Context) -> Iterator[Breach]:
    image = ctx.recipe.engine.image
    version = of_image(image) if image else None
    if version and version not in SpecifierSet(ctx.recipe.engine.vllm, prereleases=True):
        yield Breach(("engine", "image"), f"holds vLLM {version}, the recipe is for {ctx.recipe.engine.vllm}")


@AREA.rule(
    "engine-image-moves",
    Severity.WARNING,
    versions=ANY,
    reason="An image tag such as `latest` or `nightly` moves or is purged, so the server cannot be had again.",
    fix="name a release tag, or better a digest (image@sha256:…)",
    evidence=("Docker documentation: image digests",),
    stock=False,
)
def _image_moves(ctx: Context) -> Iterator[Breach]:
    image = ctx.recipe.engine.image or ""
    tag = image.rpartition("/")[2].partition(":")[2]
    if image and "@sha256:" not in image and (not tag or tag.startswith(("latest", "nightly", "main"))):
        yield Breach(("engine", "image"), f"{image} moves")


@AREA.rule(
    "engine-image-unpinned",
    Severity.NOTE,
    versions=ANY,
    reason="A tag can be pushed again; only a digest names the image that was measured.",
    fix="add the digest: image@sha256:… (docker images --digests)",
    evidence=("Docker documentation: image digests",),
    stock=False,
)
def _image_unpinned(ctx: Context) -> Iterator[Breach]:
    image = ctx.recipe.engine.image
    if image and "@sha256:" not in image:
        yield Breach(("engine", "image"), f"{image} has no digest")


@AREA.rule(
    "engine-fork",
    Severity.WARNING,
    versions=ANY,
    reason="The recipe runs a fork of vLLM; rules about vLLM's own releases do not cover it.",
    fix="prefer a release where one serves this model on this hardware; else run the correctness probes first",
    evidence=("vllm#54059",),
    stock=False,
)
def _fork(ctx: Context) -> Iterator[Breach]:
    fork = ctx.recipe.engine.fork
    if fork:
        yield Breach(("engine", "fork"), f"served by the fork {fork.repo}")


@AREA.rule(
    "fork-method-unproven",
    Severity.ERROR,
    versions=ANY,
    reason="Nobody has published that this fork serves this method.",
    fix="serve an arm whose method is listed in engine.fork.methods, or add the method with a source",
    evidence=("vllm#54059",),
    stock=False,
)
def _fork_method(ctx: Context) -> Iterator[Breach]:
    fork = ctx.recipe.engine.fork
    if fork and (ctx.method or "none") not in fork.methods:
        yield Breach(ctx.arm_key("method"), f"{fork.repo} is not known to serve {ctx.method or 'no drafter'}")


@AREA.rule(
    "engine-too-old-for-dflash2",
    Severity.ERROR,
    versions="<0.28",
    reason="DFlash2 first shipped in 0.28.0. Backports refuse targets whose body is quantised (DFlash2 requires an "
    "unquantized target LM head for candidate TopK).",
    fix='write engine.vllm: ">=0.32,<0.34"',
    evidence=("vllm#52816", "vllm#52883"),
)
def _dflash2(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash":
        yield Breach(("engine", "vllm"), "admits versions without DFlash2")


@AREA.rule(
    "engine-too-old-for-target",
    Severity.ERROR,
    versions="<0.30",
    reason="The target's architecture is not in these versions: Qwen3.8-Flash-Next came with 0.29.0, GLM-5.3-Flash "
    "with 0.30.0.",
    fix="raise the lower bound of engine.vllm",
    evidence=("vllm#53896", "vllm#53906"),
    needs=("target.architecture",),
)
def _target(ctx: Context) -> Iterator[Breach]:
    first, source = FIRST.get(ctx.family(), ("", ""))
    if first and any(version not in SpecifierSet(f">={first}") for version in ctx.versions if version <= RELEASES[-1]):
        yield Breach(("engine", "vllm"), f"admits versions before {first}, which lack this architecture ({source})")


@AREA.rule(
    "cpu-dflash2-needs-interpreter",
    Severity.ERROR,
    versions=ANY,
    reason="vLLM's CPU build has no Triton: it falls back to the V1 runner, which refuses DFlash2.",
    fix="write runtime: local and environment: cpu (the managed environment brings Triton's interpreter)",
    evidence=("vLLM 0.32.0, vllm/config/vllm.py: V1 reject list",),
)
def _cpu(ctx: Context) -> Iterator[Breach]:
    if not ctx.cuda and ctx.method == "dflash" and ctx.recipe.engine.environment != "cpu":
        yield Breach(("engine", "environment"), "a CPU build of vLLM without Triton cannot draft with DFlash2")


@AREA.rule(
    "cpu-head-dim",
    Severity.ERROR,
    versions=ANY,
    reason="The CPU attention kernel does not know a head dimension of 32 (Unexpected head dim size, 32).",
    fix="use a checkpoint with head_dim 64 or 128",
    evidence=("vLLM 0.32.0 CPU attention kernel",),
    needs=("target.head_dim",),
)
def _cpu_head(ctx: Context) -> Iterator[Breach]:
    if not ctx.cuda and need(ctx.target.integer("head_dim"), "target.head_dim") == 32:
        yield Breach(("target",), "head_dim is 32")
