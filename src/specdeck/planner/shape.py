"""From two configs and serving options to the cached layers of one GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.planner.kv import (
    Grouping,
    LayerKind,
    blocks_per_request,
    ceil_div,
    gdn_state_bytes,
    group_layers,
    hybrid_block_tokens,
    smallest_qsa_block,
)

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts

ELEMENT_BYTES = {
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4,
}  # fmt: skip
# Their indexer and latent caches are packed beside the main pages in a layout this planner does not follow.
PACKED_FAMILIES = {"qwen4_exp": "QSA", "qwen4_exp_text": "QSA", "glm5_next": "MLA", "glm5_next_text": "MLA"}


@dataclass(frozen=True)
class CacheOptions:
    """Serving options that shape the KV cache.

    Attributes:
        concurrent_batches: batches in flight at once: pipeline stages, and one more with asynchronous scheduling.
    """

    tensor_parallel: int = 1
    kv_dtype: str = "bfloat16"
    state_dtype: str | None = None
    block_size: int | None = None
    prefix_caching: bool = True
    batched_tokens: int = 8192
    concurrent_batches: int = 2
    method: str | None = None
    draft_tokens: int = 0
    cpu: bool = False


@dataclass(frozen=True)
class CacheShape:
    """The cache of one GPU.

    Attributes:
        token_bytes: bytes of one token by kind of layer, all layers of the kind together.
        state_bytes: bytes of the recurrent states of one sequence (one state a layer), 0 without such layers.
        block_tokens: attention block size.
        automatic_block: what the engine would choose by itself.
        grouping: None where the layout is not followed exactly; `missing` then says why.
    """

    token_bytes: dict[str, int]
    state_bytes: int
    block_tokens: int
    automatic_block: int
    grouping: Grouping | None
    missing: tuple[str, ...]

    def per_request(self, options: CacheOptions, context: int) -> int:
        """Return the blocks of one request of `context` tokens."""
        assert self.grouping is not None
        return blocks_per_request(
            self.grouping,
            context=context,
            draft_tokens=options.draft_tokens,
            prefix_caching=options.prefix_caching,
            in_flight_tokens=options.concurrent_batches * options.batched_tokens,
        )


def cache_shape(
    target: CheckpointFacts, drafter: CheckpointFacts | None, options: CacheOptions
) -> CacheShape | tuple[str, ...]:
    """Work out the cached layers; returns the names of the config keys that are missing when it cannot.

    Raises:
        SpecdeckError: a key of a config holds what it cannot hold.
    """
    model_type = str(target.text.get("model_type"))
    kinds = target.layer_types
    heads, kv_heads, hidden = (
        target.number(key, least=1) for key in ("num_attention_heads", "num_key_value_heads", "hidden_size")
    )
    head_dim = target.number("head_dim", least=1) or (hidden // heads if hidden and heads else None)
    if model_type in PACKED_FAMILIES:
        return _packed(target, options, kinds)
    absent = [
        f"target config: {name}"
        for name, value in (
            ("layer_types", kinds), ("num_key_value_heads", kv_heads), ("head_dim", head_dim),
        )
        if value is None
    ]  # fmt: skip
    if absent or kinds is None or kv_heads is None or head_dim is None:
        return tuple(absent)
    element = ELEMENT_BYTES.get(options.kv_dtype)
    if element is None:
        return (f"serve.kv_cache_dtype: bytes of {options.kv_dtype}",)
    local_heads = max(1, kv_heads // options.tensor_parallel)
    token = 2 * local_heads * head_dim * element
    state_layers = sum(kind == "linear_attention" for kind in kinds)
    full = len(kinds) - state_layers + (_mtp_layers(target) if options.method == "mtp" else 0)
    smallest, kernel = (options.block_size or 128, 32) if options.cpu else (options.block_size or 16, 16)
    layers = []
    state = 0
    if state_layers:
        found = _state(target, options)
        if isinstance(found, tuple):
            return found
        state = found
        block = max(smallest, hybrid_block_tokens(state, token, smallest=smallest, kernel=kernel))
        layers.append(LayerKind("state", state_layers, block * token))
    else:
        block = smallest
    layers.append(LayerKind("full", full, block * token, block))
    token_bytes = {"full attention": full * token}
    if options.method == "dflash":
        if drafter is None:
            return ("drafter config",)
        extra = _drafter_layers(drafter, options, block, element)
        if isinstance(extra, tuple):
            return extra
        layers.append(extra)
        name = "drafter, sliding window" if extra.kind == "sliding" else "drafter, full attention"
        token_bytes[name] = extra.layers * extra.page_bytes // block
    return CacheShape(token_bytes, state * state_layers, block, block, group_layers(layers), ())


def _state(target: CheckpointFacts, options: CacheOptions) -> int | tuple[str, ...]:
    names = (
        "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
        "linear_conv_kernel_dim",
    )  # fmt: skip
    key_heads, value_heads, key_dim, value_dim, kernel = found = [target.number(name, least=1) for name in names]
    absent = tuple(f"target config: {name}" for name, value in zip(names, found, strict=True) if value is None)
    if key_heads is None or value_heads is None or key_dim is None or value_dim is None or kernel is None:
        return absent
    # 0.32.0 keeps the recurrent state in the config's mamba_ssm_dtype, else in the model's own.
    dtype = options.state_dtype if options.state_dtype not in (None, "auto") else target.text.get("mamba_ssm_dtype")
    size = ELEMENT_BYTES.get(str(dtype or "bfloat16"))
    if size is None:
        return (f"target config: mamba_ssm_dtype {dtype!r}",)
    ranks = options.tensor_parallel
    return gdn_state_bytes(
        key_heads=max(1, key_heads // ranks), value_heads=max(1, value_heads // ranks), key_dim=key_dim,
        value_dim=value_dim, kernel=kernel, draft_tokens=options.draft_tokens, state_bytes=size,
    )  # fmt: skip


def _mtp_layers(target: CheckpointFacts) -> int:
    return target.number("mtp_num_hidden_layers") or target.number("num_nextn_predict_layers") or 1


def _drafter_layers(
    drafter: CheckpointFacts, options: CacheOptions, block: int, element: int
) -> LayerKind | tuple[str, ...]:
    layers, kv_heads, head_dim, window = (
        drafter.number(key, least=1)
        for key in ("num_hidden_layers", "num_key_value_heads", "head_dim", "sliding_window")
    )
    if layers is None or kv_heads is None or head_dim is None:
        return ("drafter config: num_hidden_layers, num_key_value_heads, head_dim",)
    page = block * 2 * max(1, kv_heads // options.tensor_parallel) * head_dim * element
    sliding = bool(window) and all(
        kind == "sliding_attention" for kind in drafter.layer_types or ("sliding_attention",)
    )
    return LayerKind("sliding" if sliding else "full", layers, page, block, (window or 0) if sliding else 0)


def _packed(
    target: CheckpointFacts, options: CacheOptions, kinds: tuple[str, ...] | None
) -> CacheShape | tuple[str, ...]:
    """Return bytes a token and the block size of QSA and MLA targets; their pools are estimated, not followed."""
    element = ELEMENT_BYTES.get(options.kv_dtype)
    if kinds is None or element is None:
        return ("target config: layer_types",) if kinds is None else (f"serve.kv_cache_dtype: {options.kv_dtype}",)
    attention = sum(kind != "linear_attention" for kind in kinds)
    family = PACKED_FAMILIES[str(target.text.get("model_type"))]
    state = _state(target, options)
    missing = list(state) if isinstance(state, tuple) else []
    missing.append(f"the engine's layout of {family} side caches beside the main pages")
    indexer = target.number("index_head_dim", least=1)
    ratio = target.number("indexer_compress_ratio", least=1) or 1
    if indexer is None:
        missing.append("target config: index_head_dim (bytes of the indexer's keys)")
    index_bytes = attention * ceil_div((indexer or 0) * 2, ratio)
    if family == "MLA":
        rank, rope = target.number("kv_lora_rank", least=1), target.number("qk_rope_head_dim") or 0
        if rank is None:
            return ("target config: kv_lora_rank",)
        token, smallest = (rank + rope) * element, 128
    else:
        kv_heads, head_dim = target.number("num_key_value_heads", least=1), target.number("head_dim", least=1)
        if kv_heads is None or head_dim is None:
            return ("target config: num_key_value_heads, head_dim",)
        token, smallest = 2 * max(1, kv_heads // options.tensor_parallel) * head_dim * element, 16
    size = 0 if isinstance(state, tuple) else state
    automatic = hybrid_block_tokens(size, token, smallest=options.block_size or smallest, kernel=smallest)
    block = smallest_qsa_block(automatic, ratio, options.draft_tokens) if family == "QSA" else automatic
    return CacheShape(
        {family: attention * token, "indexer keys": index_bytes},
        size * (len(kinds) - attention), block, automatic, None, tuple(missing),
    )  # fmt: skip
