"""Mixture-of-experts kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("moe", "Mixture of experts")
FAMILIES = ("qwen4_exp", "glm5_next", "glm_moe_dsa")


@AREA.rule(
    "moe-fp8-old-gpu",
    Severity.ERROR,
    reason="The default FP8 MoE kernel is Triton's, which has no fp8e4nv below compute capability 8.9 (type fp8e4nv "
    "not supported in this architecture).",
    fix="write moe_backend: marlin",
    evidence=("vllm#54318", "QwenLM/Qwen3.8-Flash-Next#7"),
    needs=("target.architecture", "target.config", "host.compute_capability"),
)
def _fp8(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.serve.moe_backend != "marlin" and ctx.family() in FAMILIES and ctx.sm() < (8, 9):
        kind = ctx.serve.quantization or need(ctx.target.quantization, "target.config")
        if kind.startswith("fp8"):
            yield Breach(ctx.key("moe_backend"), "FP8 experts below compute capability 8.9")


@AREA.rule(
    "moe-marlin-unquantized-mtp",
    Severity.ERROR,
    reason="The MoE backend is set for the MTP block as well, and Marlin refuses unquantised experts "
    "(moe_backend='marlin' is not supported for unquantized MoE).",
    fix="use a checkpoint whose MTP experts are quantised, or leave moe_backend unset in the mtp arm",
    evidence=("vLLM 0.32.0, MoE backend selection", "vllm#54318"),
    needs=("target.architecture", "target.config"),
)
def _marlin(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "mtp" and ctx.serve.moe_backend == "marlin" and ctx.family() in FAMILIES:
        spared = [name for name in need(ctx.target.unquantized_modules, "target.config") if "mtp" in name.lower()]
        if spared:
            yield Breach(ctx.key("moe_backend"), f"the MTP block is not quantised ({spared[0][:60]})")
