"""From two configs and serving options to the cached layers of one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.planner.dsa import DSA_FAMILIES, dsa_shape
from specdeck.planner.kv import LayerKind, group_layers, hybrid_block_tokens
from specdeck.planner.layers import (
    ELEMENT_BYTES,
    CacheOptions,
    CacheShape,
    drafter_layers,
    mtp_layers,
    state_bytes,
)
from specdeck.planner.packed import PACKED_FAMILIES, packed_shape

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts


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
        return packed_shape(target, drafter, options, kinds)
    if model_type in DSA_FAMILIES:
        return dsa_shape(target, options)
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
    full = len(kinds) - state_layers + (mtp_layers(target) if options.method == "mtp" else 0)
    smallest, kernel = (options.block_size or 128, 32) if options.cpu else (options.block_size or 16, 16)
    layers = []
    state = 0
    if state_layers:
        found = state_bytes(target, options)
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
        extra = drafter_layers(drafter, options, block, element)
        if isinstance(extra, tuple):
            return extra
        layers.append(extra)
        name = "drafter, sliding window" if extra.kind == "sliding" else "drafter, full attention"
        token_bytes[name] = extra.layers * extra.page_bytes // block
    return CacheShape(token_bytes, state * state_layers, block, block, group_layers(layers), ())


__all__ = ["ELEMENT_BYTES", "CacheOptions", "CacheShape", "cache_shape"]
