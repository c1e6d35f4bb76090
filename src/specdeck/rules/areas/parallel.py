"""Several GPUs: all-reduce kernels that return wrong data, links, and machines that are not what the recipe says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.recipe.hardware import CAPABILITY_OF_CLASS
from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("parallel", "Several GPUs")
OFF = "write disable_custom_all_reduce: true"
BAD_DRIVER = "595.91.07"


@AREA.rule(
    "all-reduce-consumer-blackwell",
    Severity.ERROR,
    reason="vLLM up to 0.33 does not keep its own all-reduce off compute capability 12.x, where workers die in graph "
    "capture.",
    fix=OFF,
    evidence=("vllm#47751",),
    needs=("host.compute_capability",),
)
def _blackwell(ctx: Context) -> Iterator[Breach]:
    if ctx.custom_all_reduce and ctx.sm()[0] == 12:
        yield Breach(ctx.key("disable_custom_all_reduce"), "custom all-reduce on compute capability 12.x")


@AREA.rule(
    "all-reduce-3090-nvlink",
    Severity.ERROR,
    reason="Custom all-reduce on RTX 3090 pairs with NVLink fails in graph capture (custom_all_reduce.cuh: invalid "
    "argument).",
    fix=OFF,
    evidence=("tonyd2wild/Qwen3.8-27B-AutoRound-W4A16-2x3090",),
)
def _nvlink(ctx: Context) -> Iterator[Breach]:
    linked = ctx.recipe.hardware.link == "nvlink" or ctx.host.nvlink is True
    if ctx.custom_all_reduce and ctx.recipe.hardware.class_ == "rtx3090" and linked:
        yield Breach(ctx.key("disable_custom_all_reduce"), "custom all-reduce on an RTX 3090 pair with NVLink")


@AREA.rule(
    "all-reduce-patched-p2p",
    Severity.WARNING,
    reason="Over patched PCIe peer-to-peer, custom all-reduce returned wrong data on Ampere consumer cards ('!!!!', "
    "0 % acceptance); NCCL over the same link is fine.",
    fix=OFF,
    evidence=("noonghunna/club-3090#922",),
)
def _p2p(ctx: Context) -> Iterator[Breach]:
    if ctx.custom_all_reduce and ctx.recipe.hardware.class_ == "rtx3090" and ctx.recipe.hardware.link == "pcie":
        yield Breach(ctx.key("disable_custom_all_reduce"), "custom all-reduce over PCIe between RTX 3090s")


@AREA.rule(
    "all-reduce-driver",
    Severity.ERROR,
    reason=f"With driver {BAD_DRIVER} custom all-reduce corrupts Ampere cards over PCIe: one repeated token, 0 % MTP "
    "acceptance, 0.2 tok/s.",
    fix=OFF + ", or install another driver",
    evidence=("wtdcode/vllm-backport#97",),
    needs=("host.driver", "host.compute_capability"),
    stock=False,
)
def _driver(ctx: Context) -> Iterator[Breach]:
    ampere = ctx.custom_all_reduce and ctx.sm()[0] == 8
    if ampere and ctx.recipe.hardware.link != "nvlink" and need(ctx.host.driver, "host.driver") == BAD_DRIVER:
        yield Breach(ctx.key("disable_custom_all_reduce"), f"driver {BAD_DRIVER} with custom all-reduce")


@AREA.rule(
    "expandable-segments-all-reduce",
    Severity.ERROR,
    reason="On NVLink pairs of RTX 3090, expandable segments break custom all-reduce with CUDA graphs.",
    fix="write PYTORCH_CUDA_ALLOC_CONF: expandable_segments:False, or " + OFF,
    evidence=("syv-ai/qwen38-27b-rtx3090#163",),
)
def _segments(ctx: Context) -> Iterator[Breach]:
    asked = ctx.serve.env.get("PYTORCH_CUDA_ALLOC_CONF", "").lower()
    linked = ctx.recipe.hardware.link == "nvlink" or ctx.host.nvlink is True
    if "expandable_segments:true" in asked and ctx.custom_all_reduce and linked:
        yield Breach(ctx.key("env", "PYTORCH_CUDA_ALLOC_CONF"), "expandable segments with custom all-reduce")


@AREA.rule(
    "host-other-gpu",
    Severity.WARNING,
    versions=">=0",
    reason="The machine's GPUs are of another compute capability than the recipe's class: its numbers do not apply.",
    fix="choose the recipe for your card: specdeck recipe list",
    evidence=("NVIDIA, CUDA GPU compute capability table",),
    needs=("host.compute_capability",),
    stock=False,
)
def _other(ctx: Context) -> Iterator[Breach]:
    expected = CAPABILITY_OF_CLASS.get(ctx.recipe.hardware.class_)
    if ctx.cuda and expected:
        found = need(ctx.host.capabilities, "host.compute_capability")
        if any(capability != expected for capability in found):
            seen = ", ".join(f"{major}.{minor}" for major, minor in sorted(set(found)))
            yield Breach(("hardware", "class"), f"{ctx.recipe.hardware.class_} is expected, this machine has {seen}")


@AREA.rule(
    "host-too-few-gpus",
    Severity.ERROR,
    versions=">=0",
    reason="The recipe splits the model over more GPUs than this machine has.",
    fix="choose a recipe for fewer GPUs: specdeck recipe list",
    evidence=("vLLM documentation: parallelism",),
    needs=("host.gpus",),
    stock=False,
)
def _few(ctx: Context) -> Iterator[Breach]:
    needed = ctx.tensor_parallel * (ctx.serve.pipeline_parallel_size or 1) // ctx.recipe.hardware.nodes
    if ctx.cuda and needed > len(need(ctx.host.capabilities, "host.gpus")):
        yield Breach(("hardware", "gpus"), f"needs {needed} GPUs, this machine has {len(ctx.host.capabilities or ())}")


@AREA.rule(
    "host-gpu-busy",
    Severity.WARNING,
    versions=">=0",
    reason="Memory that others hold, or a cold compile, shrinks the KV pool by 25 to 40 % without a word.",
    fix="free the GPUs (nvidia-smi shows who uses them), and read the pool's size on a second, clean start",
    evidence=("syv-ai/qwen38-27b-rtx3090 gotchas 2 and 16",),
    needs=("host.used_gib",),
    stock=False,
)
def _busy(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda:
        used = max(need(ctx.host.used_gib, "host.used_gib"), default=0.0)
        if used > 1:
            yield Breach(("hardware", "gpus"), f"{used:.1f} GiB of a GPU are in use before the start")
