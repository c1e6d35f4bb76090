"""Attention backends, FP8 KV caches and how heads are divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("attention", "Attention and the precision of the KV cache")


@AREA.rule(
    "fp8-kv-flash-attn",
    Severity.ERROR,
    reason="FlashAttention 2 cannot read an FP8 KV cache; only FlashAttention 3 (compute capability 9.0) can.",
    fix="remove attention_backend (vLLM takes FlashInfer), or keep the cache in bf16",
    evidence=("noonghunna/club-3090, dual-3090 DFlash2 tiers",),
    needs=("host.compute_capability",),
)
def _flash_attn(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.fp8_kv and (ctx.serve.attention_backend or "").upper() == "FLASH_ATTN" and ctx.sm()[0] != 9:
        yield Breach(ctx.key("attention_backend"), f"FLASH_ATTN with kv_cache_dtype {ctx.serve.kv_cache_dtype}")


@AREA.rule(
    "fp8-kv-ampere",
    Severity.WARNING,
    reason="On Ampere an FP8 KV cache rules out FlashAttention 2; FlashInfer cost about 40 % of the decode speed "
    "(78/141 against 128/231 tok/s, prose/code) for twice the pool.",
    fix="keep the cache in bf16 with attention_backend: FLASH_ATTN where the pool is large enough",
    evidence=("noonghunna/club-3090 BENCHMARKS", "syv-ai/qwen38-27b-rtx3090#153"),
    needs=("host.compute_capability", "target.architecture"),
)
def _ampere(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.fp8_kv and ctx.sm()[0] == 8 and ctx.family() == "qwen3_5":
        yield Breach(ctx.key("kv_cache_dtype"), f"{ctx.serve.kv_cache_dtype} on compute capability 8.x")


@AREA.rule(
    "fp8-kv-quality",
    Severity.NOTE,
    reason="An FP8 KV cache changes what the model says: a perplexity of 38.28 instead of 34.46 was measured.",
    fix="compare quality with kv_cache_dtype unset before relying on it",
    evidence=("HammGsm/qwen38-27b-dflash2-h100 README",),
)
def _quality(ctx: Context) -> Iterator[Breach]:
    if ctx.fp8_kv:
        yield Breach(ctx.key("kv_cache_dtype"), f"the cache is {ctx.serve.kv_cache_dtype}")


@AREA.rule(
    "heads-per-gpu",
    Severity.ERROR,
    reason="Tensor parallelism splits attention heads evenly.",
    fix="use a tensor_parallel_size that divides the number of heads",
    evidence=("vllm-project/recipes, models/Qwen/Qwen3.8-27B.yaml",),
    needs=("target.num_attention_heads",),
)
def _heads(ctx: Context) -> Iterator[Breach]:
    if ctx.tensor_parallel > 1:
        heads = need(ctx.target.integer("num_attention_heads"), "target.num_attention_heads")
        if heads % ctx.tensor_parallel:
            yield Breach(
                ctx.key("tensor_parallel_size"), f"{heads} heads cannot be split over {ctx.tensor_parallel} GPUs"
            )


@AREA.rule(
    "drafter-heads-per-gpu",
    Severity.ERROR,
    reason="The drafter is split over the same GPUs as the target, so its heads must divide evenly too.",
    fix="use a tensor_parallel_size that divides the drafter's heads, or speculative.draft_tensor_parallel_size: 1",
    evidence=("vllm#52816",),
    needs=("drafter.num_attention_heads",),
)
def _drafter_heads(ctx: Context) -> Iterator[Breach]:
    own = ctx.arm.speculative.get("draft_tensor_parallel_size")
    parallel = own if isinstance(own, int) and own > 0 else ctx.tensor_parallel
    if ctx.method == "dflash" and ctx.drafter and parallel > 1:
        heads = need(ctx.drafter.integer("num_attention_heads"), "drafter.num_attention_heads")
        if heads % parallel:
            yield Breach(ctx.key("tensor_parallel_size"), f"the drafter's {heads} heads over {parallel} GPUs")
