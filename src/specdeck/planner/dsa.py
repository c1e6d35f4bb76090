"""Cached layers of a target with DeepSeek's sparse attention in every layer: GLM-5.3.

One latent of every token a layer, and one indexer key in the layers that choose tokens themselves; the others reuse the
choice of a layer before. No head is split: every rank of tensor parallelism keeps all of it. Follows vLLM 0.32.0:
models/deepseek_v32/attention.py, model_executor/layers/attention/mla_attention.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.checkpoint.facts import MOST_LAYERS
from specdeck.planner.kv import Grouping, LayerKind, ceil_div
from specdeck.planner.layers import ELEMENT_BYTES, CacheOptions, CacheShape, indexer_key_bytes, mtp_layers

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts

DSA_FAMILIES = frozenset({"glm_moe_dsa"})
# The only block of the indexer's kernels on CUDA.
_BLOCK = 64
# fp8_ds_mla: latents in FP8 with a scale of 4 bytes for every 128 of them, rotary values in bfloat16.
_SCALE_GROUP, _SCALE_BYTES, _ROTARY_BYTES = 128, 4, 2


def dsa_shape(target: CheckpointFacts, options: CacheOptions) -> CacheShape | tuple[str, ...]:
    """Work out the cached layers; returns the names of the inputs that are missing when it cannot.

    Raises:
        SpecdeckError: a key of a config holds what it cannot hold.
    """
    names = ("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim")
    layers, rank, rotary, key_dim = found = [target.number(name, most=MOST_LAYERS) for name in names]
    if not layers or not rank or rotary is None or not key_dim:
        return tuple(f"target config: {name}" for name, value in zip(names, found, strict=True) if not value)
    if options.method == "dflash":
        return ("how a drafter's layers would lie beside GLM-5.3's: no drafter of it is published with figures",)
    latent = latent_bytes(rank, rotary, options.kv_dtype)
    if latent is None:
        return (f"serve.kv_cache_dtype: bytes of {options.kv_dtype}",)
    extra = mtp_layers(target) if options.method == "mtp" else 0
    choosing, missing = _choosing(target, layers)
    token_bytes = {
        "MLA": (layers + extra) * latent,
        "indexer keys": (choosing + extra) * indexer_key_bytes(key_dim),  # an MTP layer has an indexer of its own
    }
    block = _BLOCK * ceil_div(options.block_size or _BLOCK, _BLOCK)
    page = block * sum(token_bytes.values())
    # Pages of two sizes, but alike in all else: one group, whose block holds a page of every layer.
    grouping = Grouping(1, page, ((LayerKind("full", 1, page, block), 1),), 0)
    return CacheShape(token_bytes, 0, block, _BLOCK, grouping, missing)


def latent_bytes(rank: int, rotary: int, kv_dtype: str) -> int | None:
    """Return bytes of one token's latent in one layer; None: the type is not known.

    FP8 is kept as `fp8_ds_mla`, what the kernels of compute capability 9.0 and 12.x take: 656 bytes for a rank of 512
    and 64 rotary values.
    """
    if kv_dtype.startswith("fp8"):
        return rank + ceil_div(rank, _SCALE_GROUP) * _SCALE_BYTES + rotary * _ROTARY_BYTES
    size = ELEMENT_BYTES.get(kv_dtype)
    return None if size is None else (rank + rotary) * size


def _choosing(target: CheckpointFacts, layers: int) -> tuple[int, tuple[str, ...]]:
    """Return how many layers have an indexer, and the keys that would have told."""
    pattern = target.word("index_topk_pattern")
    if pattern:
        return sum(pattern[layer : layer + 1] != "S" for layer in range(layers)), ()
    every = target.number("index_topk_freq", least=1)
    if every is None:
        named = ("target config: index_topk_freq; an indexer is counted in every layer",) if target.partial else ()
        return layers, named
    offset = target.number("index_skip_topk_offset")
    first = 2 if offset is None else offset
    return sum(max(layer - first + 1, 0) % every == 0 for layer in range(layers)), ()
