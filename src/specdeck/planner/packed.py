"""Cached layers of targets with sparse attention: Flash-Next (QSA) and GLM-5.3-Flash (sparse MLA), in packed blocks.

Beside its main page every attention layer has a page of compressed indexer keys and a ring of keys that are not yet
compressed. Follows vLLM 0.32.0: models/qwen4_exp/common/qsa_cache.py, models/glm5next/common/attention.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.planner.kv import (
    LayerKind,
    ceil_div,
    hybrid_block_tokens,
    narrowest_qsa_ring,
    pack_layers,
    qsa_ring_capacity,
    smallest_qsa_block,
)
from specdeck.planner.layers import (
    ELEMENT_BYTES,
    CacheOptions,
    CacheShape,
    drafter_layers,
    indexer_key_bytes,
    mtp_layers,
    state_bytes,
)

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts

PACKED_FAMILIES = {"qwen4_exp": "QSA", "qwen4_exp_text": "QSA", "glm5_next": "MLA", "glm5_next_text": "MLA"}
# Published DFlash2 drafters (Qwen3.8-27B, GLM-5.3-Flash) have this cache; taken where a drafter's config is not known.
_USUAL_DRAFTER = (5, 8, 128, 2048)


def packed_shape(
    target: CheckpointFacts, drafter: CheckpointFacts | None, options: CacheOptions, kinds: tuple[str, ...] | None
) -> CacheShape | tuple[str, ...]:
    """Work out the cached layers; returns the names of the config keys that are missing when it cannot.

    Raises:
        SpecdeckError: a key of a config holds what it cannot hold.
    """
    element = ELEMENT_BYTES.get(options.kv_dtype)
    if kinds is None or element is None:
        return ("target config: layer_types",) if kinds is None else (f"serve.kv_cache_dtype: {options.kv_dtype}",)
    family = PACKED_FAMILIES[str(target.text.get("model_type"))]
    read = _qsa if family == "QSA" else _mla
    states = sum(kind == "linear_attention" for kind in kinds)
    found = read(target, options, element, states)
    state = state_bytes(target, options)
    if isinstance(found, tuple):
        return found
    if isinstance(state, tuple):
        return state
    asked = max(options.block_size or found.smallest, found.smallest)
    automatic = hybrid_block_tokens(state, found.token, smallest=asked, kernel=found.smallest)
    ratio = found.ratio
    block, ring_page = automatic, found.ring_page
    if family == "QSA" and options.wide_ring:
        ring = narrowest_qsa_ring(ratio, options.draft_tokens, block)
        ring_page = ring_page if ring is None else ring * found.key
    elif family == "QSA":
        block = smallest_qsa_block(automatic, ratio, options.draft_tokens)
    attention = len(kinds) - states + (mtp_layers(target) if options.method == "mtp" else 0)
    page = block * found.token
    layers = [
        LayerKind("full", attention, page, block, side_bytes=ceil_div(block, ratio) * found.key),
        LayerKind("state", states, page, spare=found.spare),
        LayerKind("ring", attention, ring_page),
    ]
    if found.ngram_layers:
        layers.append(LayerKind("state", found.ngram_layers, page))
    token_bytes = {family: attention * found.token, "indexer keys": ceil_div(attention * found.key, ratio)}
    missing = found.missing
    if options.method == "dflash":
        extra, name = _drafter(drafter, options, block, element)
        layers.append(extra)
        token_bytes["drafter, sliding window" if extra.window else "drafter, full attention"] = (
            extra.layers * extra.page_bytes // block
        )
        missing += name
    return CacheShape(token_bytes, state * states, block, automatic, pack_layers(layers), missing)


@dataclass(frozen=True)
class _Attention:
    """One attention layer of one GPU.

    Attributes:
        token: bytes of one token in the main page.
        key: bytes of one compressed indexer key.
        ring_page: bytes of the ring of keys that are not compressed yet.
        ratio: tokens of one compressed key.
        smallest: smallest block, tokens.
        spare: blocks of a request beyond the states of one group.
        ngram_layers: layers that keep a state of the n-gram table.
        missing: inputs that are not known.
    """

    token: int
    key: int
    ring_page: int
    ratio: int
    smallest: int
    spare: int = 0
    ngram_layers: int = 0
    missing: tuple[str, ...] = ()


def _qsa(target: CheckpointFacts, options: CacheOptions, element: int, states: int) -> _Attention | tuple[str, ...]:
    names = ("num_key_value_heads", "head_dim", "indexer_head_dim", "indexer_compress_ratio")
    kv_heads, head_dim, key_dim, ratio = found = [target.number(name, least=1) for name in names]
    if kv_heads is None or head_dim is None or key_dim is None or ratio is None:
        return tuple(f"target config: {name}" for name, value in zip(names, found, strict=True) if value is None)
    layers = target.text.get("ple_layer_ids")
    known = isinstance(layers, list)
    return _Attention(
        2 * max(1, kv_heads // options.tensor_parallel) * head_dim * element,
        key_dim * 2,
        qsa_ring_capacity(ratio, options.draft_tokens) * key_dim * 2,
        ratio,
        16,
        ngram_layers=min(len(layers), states) if isinstance(layers, list) else 1,
        missing=() if known else ("target config: ple_layer_ids; one n-gram layer is counted",),
    )


def _mla(target: CheckpointFacts, options: CacheOptions, element: int, _states: int) -> _Attention | tuple[str, ...]:
    names = ("kv_lora_rank", "index_head_dim", "index_kpool")
    rank, key_dim, ratio = found = [target.number(name, least=1) for name in names]
    if rank is None or key_dim is None or ratio is None:
        return tuple(f"target config: {name}" for name, value in zip(names, found, strict=True) if value is None)
    pools = ceil_div(ratio + options.draft_tokens, ratio)
    ring = ratio * (1 << (pools - 1).bit_length())
    return _Attention(
        (rank + (target.number("qk_rope_head_dim") or 0)) * element,
        indexer_key_bytes(key_dim),
        ring * 2 * key_dim * 2,
        ratio,
        128,
        spare=1,  # FlashKDA, on every GPU that releases serve this family on, keeps a checkpoint of each prefill
    )


def _drafter(
    drafter: CheckpointFacts | None, options: CacheOptions, block: int, element: int
) -> tuple[LayerKind, tuple[str, ...]]:
    found = drafter_layers(drafter, options, block, element) if drafter else ()
    if not isinstance(found, tuple):
        return found, ()
    layers, kv_heads, head_dim, window = _USUAL_DRAFTER
    page = block * 2 * max(1, kv_heads // options.tensor_parallel) * head_dim * element
    return LayerKind("sliding", layers, page, block, window), (
        f"drafter config: counted as {layers} layers of {kv_heads} KV heads of {head_dim} with a window of {window}",
    )
