"""Qwen3.8-Flash-Next (Qwen4Exp): QSA rings, method allow-list, n-gram tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdeck.planner.kv import (
    QSA_RING_PATCH,
    gdn_state_bytes,
    hybrid_block_tokens,
    narrowest_qsa_ring,
    qsa_ring_capacity,
    smallest_qsa_block,
)
from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("flash-next", "Qwen3.8-Flash-Next")
# Ids of engines/patches.
METHOD_PATCH, CAPTURE_PATCH = "qwen4exp-dflash-method", "qwen4exp-aux-hidden-states"
BLOCK_STEP = 16
"""vLLM grows the attention block of a hybrid in steps of 16 tokens."""
PATCHES = f"name the patches: engine.patches: [{CAPTURE_PATCH}, {METHOD_PATCH}, {QSA_RING_PATCH}], and build the image"


def _flash_next(ctx: Context) -> bool:
    return ctx.family() == "qwen4_exp"


def automatic_block(ctx: Context) -> int:
    """Return the attention block size that vLLM chooses by itself for a target with gated-delta-net layers, tokens.

    Raises:
        NotKnown: a number of config.json it depends on is not there.
    """
    parallel = ctx.tensor_parallel
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    keys, values, key_dim, value_dim = (need(ctx.target.integer(name), f"target.{name}") for name in names)
    kernel = need(ctx.target.integer("linear_conv_kernel_dim"), "target.linear_conv_kernel_dim")
    kv_heads = need(ctx.target.integer("num_key_value_heads"), "target.num_key_value_heads")
    head_dim = need(ctx.target.integer("head_dim"), "target.head_dim")
    # The state is kept in the type asked for, else in config.json's, else in the model's own 16 bits.
    kept = ctx.serve.mamba_ssm_cache_dtype
    kept = ctx.target.word("mamba_ssm_dtype") if kept in (None, "auto") else kept
    state = gdn_state_bytes(
        key_heads=max(keys // parallel, 1),
        value_heads=max(values // parallel, 1),
        key_dim=key_dim,
        value_dim=value_dim,
        kernel=kernel,
        draft_tokens=ctx.draft_tokens,
        state_bytes=4 if kept == "float32" else 2,
    )
    token = 2 * max(kv_heads // parallel, 1) * head_dim * (1 if ctx.fp8_kv else 2)
    return hybrid_block_tokens(state, need(token or None, "target.head_dim"))


@AREA.rule(
    "qsa-ring-capacity",
    Severity.ERROR,
    versions=">=0.29",
    reason="The QSA indexer's ring holds ratio × ceil((ratio + n) / ratio) tokens and must divide the attention block "
    "(QSA ring capacity 12 must divide the attention block size 1616). MTP with n >= 5 meets it as DFlash2 does.",
    fix=f"name the patch {QSA_RING_PATCH}, or set block_size to the smallest multiple of lcm(16, capacity) that is at "
    "least the automatic size",
    evidence=("vllm#54552", "vllm#54912"),
    needs=("target.architecture", "target.indexer_compress_ratio", "target.linear_num_key_heads",
           "target.linear_num_value_heads", "target.linear_key_head_dim", "target.linear_value_head_dim",
           "target.linear_conv_kernel_dim", "target.num_key_value_heads", "target.head_dim"),
)  # fmt: skip
def _ring(ctx: Context) -> Iterator[Breach]:
    if not ctx.draft_tokens or not _flash_next(ctx):
        return
    ratio = need(ctx.target.integer("indexer_compress_ratio") or None, "target.indexer_compress_ratio")
    capacity = qsa_ring_capacity(ratio, ctx.draft_tokens)
    asked = ctx.serve.block_size
    if QSA_RING_PATCH in ctx.recipe.engine.patches:
        if asked is not None and narrowest_qsa_ring(ratio, ctx.draft_tokens, asked) is None:
            yield Breach(ctx.key("block_size"), f"block size {asked} does not hold a ring of {capacity}")
        return
    if asked is None and BLOCK_STEP % capacity == 0:
        return  # every automatic size is a multiple of 16, and so of the capacity
    if asked is not None and asked % capacity:
        yield Breach(
            ctx.key("block_size"),
            f"block size {asked} is not a multiple of the ring capacity {capacity} ({ctx.draft_tokens} drafted tokens)",
        )
        return
    auto = automatic_block(ctx)
    valid = smallest_qsa_block(auto, ratio, ctx.draft_tokens)
    if asked is None and auto % capacity:
        yield Breach(
            ctx.arm_key("num_speculative_tokens"),
            f"the ring capacity {capacity} does not divide the automatic block size {auto}",
            f"write block_size: {valid} for this arm, or num_speculative_tokens of at most {ratio}",
        )
    elif asked is not None and asked < auto:
        yield Breach(
            ctx.key("block_size"),
            f"block size {asked} does not hold one recurrent state, which needs {auto}",
            f"write block_size: {valid}",
        )


@AREA.rule(
    "qsa-kv-bf16-only",
    Severity.ERROR,
    versions=">=0.29,<0.31",
    reason="Qwen4Exp QSA requires a BF16 main KV cache in these versions.",
    fix="remove kv_cache_dtype, or use vLLM >= 0.31 (compute capability 8.9 and up) or >= 0.33 (8.0 and 8.6)",
    evidence=("vllm#54426", "vllm#54846"),
    needs=("target.architecture",),
)
def _bf16(ctx: Context) -> Iterator[Breach]:
    if ctx.fp8_kv and _flash_next(ctx):
        yield Breach(ctx.key("kv_cache_dtype"), f"{ctx.serve.kv_cache_dtype} with QSA")


@AREA.rule(
    "qsa-fp8-kv-old-gpu",
    Severity.ERROR,
    versions=">=0.31,<0.33",
    reason="The QSA path views the cache as e4m3, which Triton cannot lower below compute capability 8.9; 0.33 adds a "
    "byte decode for 8.0 and 8.6.",
    fix="remove kv_cache_dtype, or use vLLM >= 0.33",
    evidence=("vllm#54318", "vllm#54846"),
    needs=("target.architecture", "host.compute_capability"),
)
def _old_gpu(ctx: Context) -> Iterator[Breach]:
    if ctx.fp8_kv and _flash_next(ctx) and ctx.sm() < (8, 9):
        yield Breach(ctx.key("kv_cache_dtype"), f"{ctx.serve.kv_cache_dtype} with QSA below compute capability 8.9")


@AREA.rule(
    "qsa-kv-format",
    Severity.ERROR,
    versions=">=0.29",
    reason="The QSA cache is bf16 or fp8 e4m3; no other format is implemented.",
    fix="write kv_cache_dtype: fp8_e4m3, or remove it",
    evidence=("vLLM 0.32.0, models/qwen4_exp",),
    needs=("target.architecture",),
)
def _format(ctx: Context) -> Iterator[Breach]:
    kind = ctx.serve.kv_cache_dtype
    if kind and kind not in ("auto", "bfloat16", "fp8", "fp8_e4m3") and _flash_next(ctx):
        yield Breach(ctx.key("kv_cache_dtype"), f"{kind} with QSA")


@AREA.rule(
    "flash-next-method-allowlist",
    Severity.ERROR,
    versions=">=0.29",
    reason="vLLM up to 0.33 refuses every method but MTP and n-gram for this target (Qwen4Exp speculative decoding "
    "supports only its native MTP checkpoint and linear n-gram proposers).",
    fix=PATCHES,
    evidence=("vLLM 0.33.0, model_executor/models/config.py",),
    needs=("target.architecture",),
)
def _allowlist(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and _flash_next(ctx) and METHOD_PATCH not in ctx.recipe.engine.patches:
        yield Breach(ctx.arm_key("method"), "vLLM refuses DFlash2 for Qwen3.8-Flash-Next")


@AREA.rule(
    "flash-next-no-capture",
    Severity.ERROR,
    versions=">=0.29",
    reason="The target has no EAGLE3 interface in vLLM up to 0.33, so the drafter's hidden states are never captured "
    "(Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested).",
    fix=PATCHES,
    evidence=("vllm#45319", "vLLM 0.33.0, models/qwen4_exp"),
    needs=("target.architecture",),
)
def _capture(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and _flash_next(ctx) and CAPTURE_PATCH not in ctx.recipe.engine.patches:
        yield Breach(ctx.arm_key("method"), "vLLM captures no hidden states of Qwen3.8-Flash-Next")


@AREA.rule(
    "flash-next-drafter-unconfirmed",
    Severity.WARNING,
    reason="Public texts disagree whether a DFlash2 drafter for Qwen3.8-Flash-Next can be downloaded; look-alikes are "
    "an empty placeholder and a DSpark model.",
    fix="check that the repository exists and that its config.json says DFlash2DraftModel before you plan on it",
    evidence=("incoai/Qwen3.8-Flash-Next-DFlash2", "PixelML/Qwen3.8-Flash-Next-NVFP4-DFlash"),
    needs=("target.architecture",),
)
def _unconfirmed(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.recipe.drafter and ctx.recipe.drafter.repo and _flash_next(ctx):
        yield Breach(("drafter",), f"{ctx.recipe.drafter.repo} may not be public")


@AREA.rule(
    "flash-next-pipeline",
    Severity.ERROR,
    versions=">=0.32",
    reason="With its n-gram table the model must not be split into pipeline stages.",
    fix="use tensor_parallel_size with enable_expert_parallel",
    evidence=("vLLM 0.32.0, model_executor/models/config.py",),
    needs=("target.architecture",),
)
def _pipeline(ctx: Context) -> Iterator[Breach]:
    if (ctx.serve.pipeline_parallel_size or 1) > 1 and _flash_next(ctx):
        yield Breach(ctx.key("pipeline_parallel_size"), "Qwen3.8-Flash-Next with pipeline parallelism")


@AREA.rule(
    "flash-next-dbo",
    Severity.ERROR,
    versions=">=0.32",
    reason="Dual batch overlap is not supported for this target.",
    fix="remove enable_dbo",
    evidence=("vLLM 0.32.0, model_executor/models/config.py",),
    needs=("target.architecture",),
)
def _dbo(ctx: Context) -> Iterator[Breach]:
    if ctx.option("enable_dbo") is True and _flash_next(ctx):
        yield Breach(ctx.extra_key("enable_dbo"), "dual batch overlap with Qwen3.8-Flash-Next")


@AREA.rule(
    "flash-next-table-on-gpu",
    Severity.WARNING,
    reason="The n-gram table is about 48 GiB in FP8 and twice that in bf16. Off the CPU it does not fit beside the FP8 "
    "weights on 4 H100-80GB.",
    fix="remove cpu_offload: false from engram_config, except on cards that hold the whole model",
    evidence=("vllm-project/recipes#923", "local-inference-lab/rtx6kpro#87"),
    needs=("target.architecture",),
)
def _table(ctx: Context) -> Iterator[Breach]:
    config: Any = ctx.option("engram_config")
    small = (ctx.recipe.hardware.vram_gib or 0) <= 80
    if isinstance(config, dict) and config.get("cpu_offload") is False and small and _flash_next(ctx):
        yield Breach(ctx.extra_key("engram_config"), "the n-gram table stays on the GPUs")


@AREA.rule(
    "flash-next-async-mtp",
    Severity.NOTE,
    reason="Asynchronous scheduling with the n-gram table and MTP is reported both unsafe on older builds and faster "
    "on newer ones.",
    fix="compare the text with async_scheduling: false before relying on it",
    evidence=("MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#28",),
    needs=("target.architecture",),
)
def _async(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "mtp" and ctx.option("async_scheduling") is True and _flash_next(ctx):
        yield Breach(ctx.extra_key("async_scheduling"), "asynchronous scheduling with MTP")


@AREA.rule(
    "flash-next-sm86",
    Severity.WARNING,
    versions=">=0.29",
    reason="On compute capability 8.6 Flash-Next has been published from a fork's image only; whether a release serves "
    "it there is not known.",
    fix="soak it before use, or serve it on 8.0, or on 8.9 and up",
    evidence=("DominikBucko README (fork of the day-0 image on 2×3090)", "vllm#54318 (8.0)", "vllm#54846 (8.9)"),
    needs=("target.architecture", "host.compute_capability"),
)
def _sm86(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and _flash_next(ctx) and ctx.sm() == (8, 6):
        yield Breach(("hardware", "class"), "compute capability 8.6")
