"""Plans one arm of a recipe: memory of one GPU, the KV pool, requests at a context, and what would make it fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from specdeck.planner.dsa import DSA_FAMILIES
from specdeck.planner.kv import QSA_RING_PATCH, pool_tokens
from specdeck.planner.memory import GIB, Amount, drafter_weights, reserve, weights
from specdeck.planner.shape import ELEMENT_BYTES, CacheOptions, CacheShape, cache_shape
from specdeck.recipe.hardware import CAPABILITY_OF_CLASS

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts
    from specdeck.recipe.models import Recipe, Serve

# vLLM 0.32.0, config/cache.py: gpu_memory_utilization.
DEFAULT_UTILISATION = 0.92
# A card's nominal GiB against what CUDA reports: 31.4 of 32 (vllm-project/recipes#810), 139.8 of 141 (measured).
USABLE = (0.975, 0.981, 0.992)


@dataclass(frozen=True)
class Pool:
    """The KV cache of one outcome.

    Attributes:
        blocks: blocks of the pool.
        tokens: as the engine's log reports them.
        requests: how many requests of the asked context fit at once.
    """

    memory_gib: float
    blocks: int
    tokens: int
    requests: int


@dataclass(frozen=True)
class ArmPlan:
    """The plan of one arm. Pools are given for the least, the expected and the most memory that may be left."""

    arm: str
    method: str | None
    draft_tokens: int
    context: int | None
    max_model_len: int | None
    memory: tuple[Amount, ...]
    budget: Amount | None
    block_tokens: int | None
    token_bytes: dict[str, int]
    state_bytes: int | None
    block_bytes: int | None
    blocks_per_request: int | None
    pools: tuple[Pool, Pool, Pool] | None
    fits: str
    unknown: tuple[str, ...]
    assumed: tuple[str, ...]
    changes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values; null means not known."""
        return asdict(self)


def plan_arm(
    recipe: Recipe,
    arm_name: str,
    target: CheckpointFacts | None,
    drafter: CheckpointFacts | None,
    *,
    context: int | None = None,
    kv_bytes: int | None = None,
    suggest: bool = True,
) -> ArmPlan:
    """Plan an arm.

    Args:
        recipe: the resolved recipe.
        arm_name: one of its arms.
        target: what is known of the target; None: nothing.
        drafter: what is known of the drafter.
        context: tokens of one request [default: max_model_len].
        kv_bytes: memory of the KV cache of one GPU, when it is known [default: the recipe's, else worked out].
        suggest: look for single changes that would make it fit.

    Raises:
        SpecdeckError: a config holds what it cannot hold.
    """
    arm, serve = recipe.arms[arm_name], recipe.serve_of(arm_name)
    unknown: list[str] = []
    assumed: list[str] = []
    options = cache_options(recipe, arm_name, target, assumed)
    shape: CacheShape | None = None
    if target is None:
        unknown.append(
            f"everything about the target {recipe.target.where}: neither its files nor models/*.yml are here"
        )
    else:
        found = cache_shape(target, drafter, options)
        if isinstance(found, tuple):
            unknown += found
        else:
            shape, unknown = found, unknown + list(found.missing)
    length = serve.max_model_len or (target.number("max_position_embeddings", least=1) if target else None)
    if serve.max_model_len is None and length:
        assumed.append(f"max_model_len {length}: the target's max_position_embeddings")
    asked = context or length
    memory = _memory(recipe, arm_name, target, drafter, options, unknown, assumed)
    budget = _budget(recipe, serve, assumed)
    fixed = kv_bytes or serve.kv_cache_memory_bytes or _cpu_space(serve)
    left = _left(memory, budget, fixed)
    if fixed is None and recipe.hardware.device == "cpu":
        unknown.append("memory of the KV cache (VLLM_CPU_KVCACHE_SPACE)")
    elif fixed is None and budget is None:
        unknown.append("hardware.vram_gib")
    pools = _pools(shape, options, left, length, asked) if shape and left and length and asked else None
    plan = ArmPlan(
        arm=arm_name,
        method=arm.method,
        draft_tokens=options.draft_tokens,
        context=asked,
        max_model_len=length,
        memory=tuple(memory or ()),
        budget=budget,
        block_tokens=shape.block_tokens if shape else None,
        token_bytes=shape.token_bytes if shape else {},
        state_bytes=shape.state_bytes if shape else None,
        block_bytes=shape.grouping.block_bytes if shape else None,
        blocks_per_request=shape.per_request(options, asked) if shape and asked else None,
        pools=pools,
        fits=_verdict(pools, asked, length, left),
        unknown=tuple(dict.fromkeys(unknown)),
        assumed=tuple(dict.fromkeys(assumed)),
        changes=(),
    )
    if suggest and pools is not None and plan.fits != "yes":
        return replace(plan, changes=_changes(recipe, arm_name, target, drafter, plan))
    return plan


def cache_options(
    recipe: Recipe, arm_name: str, target: CheckpointFacts | None, assumed: list[str] | None = None
) -> CacheOptions:
    """Return the options that shape the cache; what vLLM would choose by itself is added to `assumed`."""
    assumed = [] if assumed is None else assumed
    arm, serve = recipe.arms[arm_name], recipe.serve_of(arm_name)
    dtype = serve.kv_cache_dtype or "auto"
    if dtype == "auto" and _packs_latents(recipe, target):
        dtype = "fp8_ds_mla"
        assumed.append("KV cache in fp8_ds_mla: the only form that sparse MLA takes on compute capability 12.x")
    elif dtype == "auto":
        dtype = serve.dtype if serve.dtype in ELEMENT_BYTES else "bfloat16"
        if serve.kv_cache_dtype is None and recipe.hardware.device == "cuda":
            assumed.append("KV cache in bfloat16 (a checkpoint may ask for fp8 itself)")
    large = (recipe.hardware.vram_gib or 0) >= 70
    batched = serve.max_num_batched_tokens
    if batched is None:
        batched = 8192 if large else 2048
        assumed.append(f"max_num_batched_tokens {batched}: vLLM's default for such a card")
    return CacheOptions(
        tensor_parallel=serve.tensor_parallel_size or 1,
        kv_dtype=dtype,
        state_dtype=serve.mamba_ssm_cache_dtype,
        block_size=serve.block_size,
        prefix_caching=serve.enable_prefix_caching is not False,
        batched_tokens=batched,
        concurrent_batches=(serve.pipeline_parallel_size or 1) + _asynchronous(recipe, serve),
        method=arm.method,
        draft_tokens=arm.num_speculative_tokens or 0,
        cpu=recipe.hardware.device == "cpu",
        wide_ring=QSA_RING_PATCH in recipe.engine.patches,
    )


def _packs_latents(recipe: Recipe, target: CheckpointFacts | None) -> bool:
    """Whether vLLM 0.32.0 turns `auto` into packed FP8 latents (mla_attention.py, for FLASHINFER_MLA_SPARSE_SM120)."""
    major = CAPABILITY_OF_CLASS.get(recipe.hardware.class_, (0, 0))[0]
    return major == 12 and target is not None and str(target.text.get("model_type")) in DSA_FAMILIES


def _asynchronous(recipe: Recipe, serve: Serve) -> bool:
    """Whether vLLM 0.32.0 schedules asynchronously: by default, except on CPU (platforms/cpu.py)."""
    off = serve.extra.get("async_scheduling", serve.extra.get("async-scheduling")) is False
    off = off or bool(serve.extra.get("no_async_scheduling", serve.extra.get("no-async-scheduling")))
    return recipe.hardware.device != "cpu" and not off


def _memory(
    recipe: Recipe, arm_name: str, target: CheckpointFacts | None, drafter: CheckpointFacts | None,
    options: CacheOptions, unknown: list[str], assumed: list[str],
) -> list[Amount] | None:  # fmt: skip
    if target is None or recipe.hardware.device == "cpu":
        return None
    serve = recipe.serve_of(arm_name)
    ranks = options.tensor_parallel * (serve.pipeline_parallel_size or 1)
    limits = serve.limit_mm_per_prompt
    vision = not (serve.language_model_only or (limits and not any(limits.values())))
    main = weights(target, ranks, mtp=options.method == "mtp", vision=vision, ngram=_table_on_gpu(target, serve))
    if target.weight_bytes is None:
        unknown.append(f"bytes of the weights of {target.name}")
    if main is None:
        return None
    found = [main]
    if options.method == "dflash":
        if drafter is None or drafter.weight_bytes is None:
            unknown.append("bytes of the drafter's weights")
        found += drafter_weights(drafter, ranks)
    sequences = serve.max_num_seqs
    if sequences is None:
        sequences = 1024 if (recipe.hardware.vram_gib or 0) >= 70 else 256
        assumed.append(f"max_num_seqs {sequences}: vLLM's default for such a card")
    return found + reserve(
        target, serve, batched_tokens=options.batched_tokens, sequences=sequences, draft_tokens=options.draft_tokens,
        ranks=ranks,
    )  # fmt: skip


def _table_on_gpu(target: CheckpointFacts, serve: Serve) -> bool:
    """Whether an n-gram table lies on the GPUs: there is none, or vLLM's default of host memory (0.31 on) is off."""
    engram = serve.extra.get("engram_config", serve.extra.get("engram-config"))
    kept = isinstance(engram, dict) and engram.get("cpu_offload") is False
    return kept or not str(target.text.get("model_type")).startswith("qwen4_exp")


def _budget(recipe: Recipe, serve: Serve, assumed: list[str]) -> Amount | None:
    vram = recipe.hardware.vram_gib
    if vram is None:
        return None
    share = serve.gpu_memory_utilization
    if share is None:
        share = DEFAULT_UTILISATION
        assumed.append(f"gpu_memory_utilization {share}: vLLM's default")
    low, middle, high = (vram * share * usable for usable in USABLE)
    return Amount("budget", low, middle, high, f"{vram:g} GiB nominal × {share:g}; cards report 97.5 to 99.2 % of it")


def _cpu_space(serve: Serve) -> int | None:
    """Return VLLM_CPU_KVCACHE_SPACE of the recipe in bytes; the variable counts whole GiB."""
    text = serve.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    return int(text) * GIB if text.isdecimal() and 0 < int(text) < 2**20 else None


def _left(memory: list[Amount] | None, budget: Amount | None, fixed: int | None) -> tuple[float, float, float] | None:
    if fixed is not None:
        return (fixed / GIB,) * 3
    if memory is None or budget is None:
        return None
    return (
        budget.low - sum(amount.high for amount in memory),
        budget.expected - sum(amount.expected for amount in memory),
        budget.high - sum(amount.low for amount in memory),
    )


def _pools(
    shape: CacheShape, options: CacheOptions, left: tuple[float, float, float], length: int, asked: int
) -> tuple[Pool, Pool, Pool]:
    low, middle, high = (_pool(shape, options, gib, length, asked) for gib in left)
    return low, middle, high


def _pool(shape: CacheShape, options: CacheOptions, gib: float, length: int, asked: int) -> Pool:
    available = max(0, int(gib * GIB))
    blocks = available // shape.grouping.block_bytes
    tokens = pool_tokens(blocks, shape.per_request(options, length), length)
    return Pool(gib, blocks, tokens, blocks // shape.per_request(options, asked))


def _verdict(
    pools: tuple[Pool, Pool, Pool] | None,
    asked: int | None,
    length: int | None,
    left: tuple[float, float, float] | None,
) -> str:
    if (asked and length and asked > length) or (left and left[2] <= 0):
        return "no"
    if pools is None:
        return "not known"
    low, middle, high = (pool.requests >= 1 for pool in pools)
    return "yes" if low else "probably" if middle else "perhaps" if high else "no"


def _changes(
    recipe: Recipe, arm_name: str, target: CheckpointFacts | None, drafter: CheckpointFacts | None, plan: ArmPlan
) -> tuple[str, ...]:
    """Try single changes of the recipe, and say which of them make one request fit."""
    serve = recipe.serve
    context = plan.context or 0
    raised = max(context, plan.max_model_len or 0)
    tries: list[tuple[str, dict[str, Any]]] = [
        ("gpu_memory_utilization: 0.95 (leaves less for activations)", {"gpu_memory_utilization": 0.95}),
        ("kv_cache_dtype: fp8", {"kv_cache_dtype": "fp8"}),
        ("max_num_batched_tokens: 2048", {"max_num_batched_tokens": 2048}),
        ("enforce_eager: true (slower decoding)", {"enforce_eager": True}),
        *(
            (f"tensor_parallel_size: {ranks} on as many GPUs", {"tensor_parallel_size": ranks})
            for ranks in (2 * (serve.tensor_parallel_size or 1), 4 * (serve.tensor_parallel_size or 1))
        ),
    ]
    found = []
    for words, change in tries:
        if all(getattr(recipe.serve_of(arm_name), key) == value for key, value in change.items()):
            continue
        arm = recipe.arms[arm_name]
        changed = recipe.model_copy(
            update={
                "serve": serve.model_copy(update=change | {"max_model_len": raised}),
                "arms": recipe.arms | {arm_name: arm.model_copy(update={"serve": arm.serve.model_copy(update=change)})},
            }
        )
        fits = plan_arm(changed, arm_name, target, drafter, context=context, suggest=False).fits
        if fits in ("yes", "probably") and fits != plan.fits:
            found.append(words + ("" if fits == "yes" else " (probably)"))
    if plan.pools is not None and plan.pools[1].tokens >= 1024:
        rounded = plan.pools[1].tokens // 1024 * 1024
        if rounded < context:
            found.append(f"max_model_len of about {rounded} at most")
    if context > (plan.max_model_len or context):
        found.insert(0, f"max_model_len: {context}")
    return tuple(found) or ("no single change does: use a smaller checkpoint or more GPUs",)


__all__ = ["ArmPlan", "Pool", "cache_options", "plan_arm"]
