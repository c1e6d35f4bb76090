"""Memory shares and batch sizes that are known to run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.planner.plan import USABLE
from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("memory", "Memory and batch sizes")
DEFAULT_SHARE = 0.92
DEFAULT_TOKENS = 2048
"""What vLLM derives for max_num_batched_tokens with speculative decoding when it is unset."""


def _share(ctx: Context) -> float:
    return ctx.serve.gpu_memory_utilization or DEFAULT_SHARE


@AREA.rule(
    "draft-batch-tokens",
    Severity.ERROR,
    reason="A full step verifies max_num_seqs × (n + 1) tokens; more than max_num_batched_tokens index out of bounds "
    "(Shape: 3328 out of considered ranges: [(1, 2048)]).",
    fix="lower max_num_seqs or raise max_num_batched_tokens",
    evidence=("vllm#53970",),
    needs=("serve.max_num_seqs",),
)
def _batch(ctx: Context) -> Iterator[Breach]:
    if ctx.draft_tokens:
        sequences = need(ctx.serve.max_num_seqs, "serve.max_num_seqs")
        limit = ctx.serve.max_num_batched_tokens or DEFAULT_TOKENS
        tokens = sequences * (ctx.draft_tokens + 1)
        if tokens > limit:
            yield Breach(
                ctx.key("max_num_seqs"),
                f"{sequences} sequences × {ctx.draft_tokens + 1} = {tokens} tokens a step, the limit is {limit}",
                f"write max_num_seqs: {max(limit // (ctx.draft_tokens + 1), 1)}, or max_num_batched_tokens: {tokens}",
            )


@AREA.rule(
    "batched-tokens-unset",
    Severity.NOTE,
    reason="With a drafter and max_num_batched_tokens unset vLLM derives 2048: prefill was slower and the first token "
    "4 s later than with 8192.",
    fix="write max_num_batched_tokens: 8192 where memory allows",
    evidence=("tonyd2wild/GLM-5.3-Flash-NVFP4-1M-KV-4x-DGX-Spark#2",),
)
def _unset(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.draft_tokens and ctx.serve.max_num_batched_tokens is None:
        yield Breach(ctx.key("max_num_batched_tokens"), "max_num_batched_tokens is unset")


@AREA.rule(
    "utilization-prompt-logprobs",
    Severity.WARNING,
    reason="A request for prompt_logprobs needs about 0.6 MB of fp32 logits a prompt token outside the pool: at 0.94 "
    "the server starts, and dies on the first one of 5,700 tokens.",
    fix="write gpu_memory_utilization: 0.92 or less",
    evidence=("vllm#52883",),
)
def _logprobs(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and _share(ctx) > DEFAULT_SHARE:
        yield Breach(ctx.key("gpu_memory_utilization"), f"{_share(ctx):g} leaves no room for prompt_logprobs")


@AREA.rule(
    "utilization-dflash2-24g",
    Severity.WARNING,
    reason="On 24 GB cards the drafter (its codebooks alone 0.5 GiB) and activations overran at 0.90 in the first 8K "
    "prefill; 0.80 held.",
    fix="write gpu_memory_utilization: 0.80 for the dflash2 arm",
    evidence=("noonghunna/club-3090#1064", "tonyd2wild/Qwen3.8-27B-AutoRound-W4A16-2x3090"),
)
def _small(ctx: Context) -> Iterator[Breach]:
    memory = ctx.recipe.hardware.vram_gib
    if ctx.cuda and ctx.method == "dflash" and memory and memory <= 24 and _share(ctx) > 0.80:
        yield Breach(ctx.key("gpu_memory_utilization"), f"{_share(ctx):g} of a {memory:g} GiB card with a drafter")


@AREA.rule(
    "utilization-mtp-growth",
    Severity.WARNING,
    reason="With MTP memory grows with load (the verification workspace is not profiled); 0.93 ran out, 0.90 held.",
    fix="write gpu_memory_utilization: 0.90 for the mtp arm",
    evidence=("syv-ai/qwen38-27b-rtx3090 gotchas 4, 23, 29 and 33",),
)
def _growth(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.method == "mtp" and _share(ctx) > 0.92:
        yield Breach(ctx.key("gpu_memory_utilization"), f"{_share(ctx):g} with MTP")


@AREA.rule(
    "graphs-1x32g",
    Severity.WARNING,
    reason="NVFP4 weights on one 32 GB card leave no room for CUDA graph capture (Tried to allocate 784.00 MiB).",
    fix="write enforce_eager: true or language_model_only: true",
    evidence=("vllm-project/recipes#810",),
)
def _graphs(ctx: Context) -> Iterator[Breach]:
    hardware, serve = ctx.recipe.hardware, ctx.serve
    small = ctx.cuda and hardware.gpus == 1 and hardware.vram_gib is not None and 24 < hardware.vram_gib <= 32
    relieved = serve.enforce_eager or serve.language_model_only
    if small and "nvfp4" in ctx.recipe.target.where.lower() and not relieved:
        yield Breach(("hardware", "gpus"), "an NVFP4 target on one 32 GB card")


@AREA.rule(
    "mtp-1x24g",
    Severity.WARNING,
    reason="MTP allocates an embedding and an lm_head of its own (2.37 GiB each in bf16): one 24 GB card ran out at "
    "load.",
    fix="use two cards, or a checkpoint with a quantised head",
    evidence=("vllm#53887",),
    needs=("target.architecture",),
)
def _single(ctx: Context) -> Iterator[Breach]:
    hardware = ctx.recipe.hardware
    small = hardware.gpus == 1 and hardware.vram_gib is not None and hardware.vram_gib <= 24
    if ctx.cuda and ctx.method == "mtp" and small and ctx.family() == "qwen3_5":
        yield Breach(("hardware", "gpus"), "MTP for a 27B target on one 24 GB card")


@AREA.rule(
    "weights-over-memory",
    Severity.ERROR,
    versions=">=0",
    reason="The weights alone are larger than the memory that vLLM may use on all GPUs together.",
    fix="choose a smaller checkpoint or more GPUs: specdeck recipe list",
    evidence=("the sizes stated in the recipe's sources",),
    needs=("target.architecture",),
    stock=False,
)
def _weights(ctx: Context) -> Iterator[Breach]:
    hardware, target = ctx.recipe.hardware, ctx.target
    if not ctx.cuda or hardware.vram_gib is None or ctx.family() == "qwen4_exp":
        return  # Flash-Next keeps its n-gram table in host memory
    room = hardware.gpus * hardware.vram_gib * _share(ctx) * USABLE[-1]
    size = target.weight_bytes or ctx.recipe.target.size_bytes
    # Where no size is published: no format of these recipes takes less than 4 bits for a parameter.
    least = size or (target.parameters or 0) // 2
    if ctx.method != "mtp":
        least -= target.part_bytes.get("mtp", 0)
    if least / 2**30 > room:
        some = "" if size else "at least "
        yield Breach(("target",), f"{some}{least / 2**30:.0f} GiB of weights, {room:.0f} GiB may be used")
