"""Checkpoints with known defects, and checkpoints that are not pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("checkpoints", "Checkpoints")
NUMBERS = (
    "hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "max_position_embeddings", "indexer_compress_ratio", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "linear_num_heads", "linear_head_dim",
    "index_kpool", "index_head_dim", "indexer_head_dim", "kv_lora_rank",
)  # fmt: skip


@AREA.rule(
    "checkpoint-unpinned",
    Severity.NOTE,
    versions=">=0",
    reason="Without a full revision hash the repository's main branch is served, which moves.",
    fix="add the 40-digit commit hash as `revision`",
    evidence=("Hugging Face documentation: revisions",),
    stock=False,
)
def _unpinned(ctx: Context) -> Iterator[Breach]:
    roles = {"target": ctx.recipe.target} | ({"drafter": ctx.recipe.drafter} if ctx.recipe.drafter else {})
    for role, checkpoint in roles.items():
        if checkpoint.repo and not checkpoint.revision and (role == "target" or ctx.method == "dflash"):
            yield Breach((role, "revision"), f"{checkpoint.repo} is not pinned")


@AREA.rule(
    "checkpoint-unhashed",
    Severity.NOTE,
    versions=">=0",
    reason="An interrupted download has valid headers over corrupt payloads and serves gibberish.",
    fix="add `sha256: {model.safetensors: …}` (sha256sum FILE)",
    evidence=("Hugging Face documentation: file hashes",),
    stock=False,
)
def _unhashed(ctx: Context) -> Iterator[Breach]:
    roles = {"target": ctx.recipe.target} | ({"drafter": ctx.recipe.drafter} if ctx.recipe.drafter else {})
    for role, checkpoint in roles.items():
        if checkpoint.path and not checkpoint.sha256 and (role == "target" or ctx.method == "dflash"):
            yield Breach((role, "sha256"), f"the files of {checkpoint.path} have no hashes")


@AREA.rule(
    "config-value-type",
    Severity.ERROR,
    versions=">=0",
    reason="A number of config.json is not a positive whole number: the file is damaged.",
    fix="fetch config.json again",
    evidence=("Hugging Face documentation: config.json",),
    stock=False,
)
def _damaged(ctx: Context) -> Iterator[Breach]:
    for role, facts in (("target", ctx.target), ("drafter", ctx.drafter if ctx.method == "dflash" else None)):
        for name in NUMBERS if facts else ():
            assert facts is not None
            value: Any = facts.value(name)
            if value is not None and not facts.integer(name):
                yield Breach((role,), f"{name} is {str(value)[:40]!r} in {facts.shown}")


@AREA.rule(
    "rotated-target",
    Severity.WARNING,
    reason="A target whose basis was rotated (SmoothQuant and the like) feeds the drafter states it was not trained "
    "on: acceptance length stays near 1.",
    fix="use a checkpoint in the native basis, or a drafter trained for this one",
    evidence=("halofx82 README",),
)
def _rotated(ctx: Context) -> Iterator[Breach]:
    name = ctx.recipe.target.where.lower()
    kind = (ctx.target.quantization or "").lower()
    if ctx.method == "dflash" and any(word in text for word in ("smoothquant", "spinquant", "quarot")
                                      for text in (name, kind)):  # fmt: skip
        yield Breach(("target",), f"{ctx.recipe.target.where} is rotated")


def _defect(
    name: str, severity: Severity, part: str, methods: tuple[str | None, ...], reason: str, fix: str, *evidence: str
) -> None:
    """Register a rule about one published checkpoint: the text in its name, and the methods it concerns."""

    def check(ctx: Context) -> Iterator[Breach]:
        if part in ctx.recipe.target.where.lower() and ctx.method in methods:
            yield Breach(("target",), f"{ctx.recipe.target.where}: {reason[0].lower()}{reason[1:].rstrip('.')}")

    AREA.rule(name, severity, reason=reason, fix=fix, evidence=evidence)(check)


_defect(
    "avuja-autoround-mtp", Severity.WARNING, "avuja/qwen3.8-27b", ("mtp",),
    "MTP acceptance drops to 0 % at about 14,500 tokens with this checkpoint.",
    "use another INT4 checkpoint", "vllm#52873",
)  # fmt: skip
_defect(
    "nvidia-flash-next-mtp", Severity.WARNING, "nvidia/qwen3.8-flash-next-nvfp4", ("mtp",),
    "MTP acceptance is about 0.23 (length 1.50): its MTP experts are declared FP8_PB_WO and built unquantised.",
    "use a checkpoint with a bf16 MTP block", "mratsim/sglang-qwen38fn-sm120-turbo#3",
)  # fmt: skip
_defect(
    "libertai-glm-wrong-tokens", Severity.ERROR, "libertaidai/glm-5.3-flash-nvfp4", (None, "mtp", "dflash"),
    "This ModelOpt NVFP4 checkpoint emits wrong tokens.",
    "use RedHatAI/GLM-5.3-Flash-NVFP4", "vllm#54150",
)  # fmt: skip
_defect(
    "nvidia-glm-mtp", Severity.ERROR, "nvidia/glm-5.3-flash-nvfp4", ("mtp",),
    "The MTP layer of this checkpoint is not usable.",
    "use RedHatAI/GLM-5.3-Flash-NVFP4", "vllm#54150",
)  # fmt: skip


@AREA.rule(
    "glm-full-fp8-mtp",
    Severity.WARNING,
    reason="MTP of the full GLM-5.3 in its official FP8 was accepted 1 to 2 % of the time at the first position.",
    fix="measure acceptance before you rely on it; an MXFP4 build reached 100 %",
    evidence=("vllm#55605",),
    needs=("target.architecture",),
)
def _glm_full(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "mtp" and ctx.recipe.target.repo == "zai-org/GLM-5.3" and ctx.family() == "glm_moe_dsa":
        yield Breach(("target",), "MTP of the official FP8 checkpoint")
