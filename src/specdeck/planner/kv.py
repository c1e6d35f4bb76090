"""KV cache arithmetic of vLLM 0.32.0: block size of hybrids, layer groups, blocks a request takes, tokens of a pool.

Follows v1/core/kv_cache_utils.py, v1/kv_cache_interface.py and platforms/interface.py of that release; it reproduces
reported pools to the token where the memory given to the cache is known (tests/unit/planner/test_kv.py).
Units: bytes and tokens of one GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["full", "state", "sliding", "ring"]
QSA_RING_PATCH = "qwen4exp-qsa-ring"
"""Patch of engines/patches that widens the QSA ring instead of asking for another attention block."""


@dataclass(frozen=True)
class LayerKind:
    """Layers that are cached alike.

    Attributes:
        kind: `full` attention, recurrent `state`, `sliding` window attention, or the `ring` of keys that an indexer has
            not compressed yet.
        layers: how many.
        page_bytes: bytes of one block of one layer.
        block_tokens: tokens of one block; 0 for states, whose blocks hold one state each.
        window: sliding window in tokens, for `sliding`.
        side_bytes: bytes of a second page of every layer, packed beside the first: compressed keys of an indexer.
        spare: blocks that a request takes beyond its states, with prefix caching.
    """

    kind: Kind
    layers: int
    page_bytes: int
    block_tokens: int = 0
    window: int = 0
    side_bytes: int = 0
    spare: int = 0


@dataclass(frozen=True)
class Grouping:
    """How the engine lays layers out: every group has `group_size` layers and draws blocks from one pool.

    Attributes:
        groups: layer kind (with the block size it ended up with) and how many groups it fills.
        padding_layers: places in groups that no layer uses.
        packed_bytes: bytes of a block where pages of several sizes lie side by side in it.
    """

    group_size: int
    page_bytes: int
    groups: tuple[tuple[LayerKind, int], ...]
    padding_layers: int
    packed_bytes: int | None = None

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool."""
        return self.packed_bytes or self.group_size * self.page_bytes


def ceil_div(value: int, by: int) -> int:
    """Return value ÷ by, rounded up."""
    return -(-value // by)


def gdn_state_bytes(
    *, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int, draft_tokens: int,
    conv_bytes: int = 2, state_bytes: int = 4,
) -> int:  # fmt: skip
    """Return bytes of one gated-delta-net (or KDA) state of one layer; heads are one GPU's.

    (kernel − 1 + n) convolution rows of a number a channel, and one key_dim × value_dim matrix a value head.
    Source: vLLM 0.32.0, model_executor/layers/mamba/mamba_utils.py, gated_delta_net_state_shape.
    """
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return (kernel - 1 + draft_tokens) * channels * conv_bytes + value_heads * key_dim * value_dim * state_bytes


def hybrid_block_tokens(state: int, token: int, *, smallest: int = 16, kernel: int = 16) -> int:
    """Return the attention block size: the smallest whose page of one layer holds one recurrent state.

    Args:
        state: bytes of the largest state of one layer.
        token: bytes of one token in one attention layer.
        smallest: block size the user asked for, else the platform's default (16; 128 on CPU).
        kernel: smallest block the attention kernel takes (16; 32 on CPU; 128 with MLA).
    """
    step = max(smallest, kernel)
    return kernel * ceil_div(step * ceil_div(state, step * token), kernel)


def qsa_ring_capacity(ratio: int, draft_tokens: int) -> int:
    """Return the ring of raw keys that Flash-Next's indexer keeps: ratio × ceil((ratio + n) ÷ ratio), tokens."""
    return ratio * ceil_div(ratio + draft_tokens, ratio)


def smallest_qsa_block(automatic: int, ratio: int, draft_tokens: int) -> int:
    """Return the smallest block size ≥ the automatic one that is a multiple of 16 and of the ring's capacity."""
    step = lcm(16, qsa_ring_capacity(ratio, draft_tokens))
    return step * ceil_div(automatic, step)


def narrowest_qsa_ring(ratio: int, draft_tokens: int, block: int) -> int | None:
    """Return the ring that the patch QSA_RING_PATCH takes, tokens; None when the block is smaller than what it holds.

    It is the smallest multiple of the ratio that holds ratio + n tokens and divides the attention block.
    """
    fits = range(qsa_ring_capacity(ratio, draft_tokens), block + 1, ratio)
    return next((capacity for capacity in fits if block % capacity == 0), None)


def group_layers(kinds: list[LayerKind]) -> Grouping:
    """Put layers into groups of equal size, with equal pages, as the engine does for layers of several kinds.

    Pages: the largest wins; states and pages that do not divide it are padded, other blocks get more tokens. Group
    size: the layer count of the rarest kind, or of the most frequent one when that is less than half as many again.

    Raises:
        ValueError: no layers.
    """
    kinds = [kind for kind in kinds if kind.layers]
    page = max(kind.page_bytes for kind in kinds)
    merged: dict[tuple[Kind, int, int], int] = {}
    for kind in kinds:
        ratio = page // kind.page_bytes if kind.kind != "state" and page % kind.page_bytes == 0 else 1
        key = (kind.kind, kind.block_tokens * ratio, kind.window)
        merged[key] = merged.get(key, 0) + kind.layers
    counts = list(merged.values())
    size = max(counts) if max(counts) < min(counts) * 1.5 else min(counts)
    groups = tuple(
        (LayerKind(name, layers, page, block, window), ceil_div(layers, size))
        for (name, block, window), layers in merged.items()
    )
    padding = sum(count * size - kind.layers for kind, count in groups)
    return Grouping(size, page, groups, padding)


def pack_layers(kinds: Sequence[LayerKind]) -> Grouping:
    """Put layers into groups whose pages of different sizes lie side by side in one block, as wide as the widest group.

    Layers with two pages stay in one group and set how many layers the others' groups have; groups of states are split
    until they fit the block that the attention layers need anyway. Source: vLLM 0.32.0, v1/core/kv_cache_utils.py,
    _get_packed_kv_cache_groups, for layers with one or two pages each.

    Raises:
        ValueError: no layers.
    """
    kinds = [kind for kind in kinds if kind.layers]
    floor = max((kind.layers for kind in kinds if kind.side_bytes), default=0)
    repeats = _least_padding([kind.layers for kind in kinds], floor) if floor else None

    def fixed(kind: LayerKind) -> int:
        return ceil_div(kind.layers, repeats) if repeats else 1

    def stateful(kind: LayerKind) -> bool:
        return kind.kind in ("state", "ring") or (repeats is None and kind.kind == "sliding")

    def width(kind: LayerKind, groups: int) -> int:
        return ceil_div(kind.layers, groups) * (kind.page_bytes + kind.side_bytes)

    anchor = max(width(kind, kind.layers if stateful(kind) else fixed(kind)) for kind in kinds)
    groups = tuple(
        (kind, max(fixed(kind), ceil_div(kind.layers, max(anchor // kind.page_bytes, 1))))
        if stateful(kind)
        else (kind, fixed(kind))
        for kind in kinds
    )
    widest = max(width(kind, count) for kind, count in groups)
    size = max(ceil_div(kind.layers, count) for kind, count in groups)
    return Grouping(size, max(kind.page_bytes for kind in kinds), groups, 0, widest)


def _least_padding(counts: list[int], floor: int) -> int:
    """Return the group size from `floor` up that leaves the fewest places empty, the larger of equals."""
    return min(range(floor, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def blocks_per_request(
    grouping: Grouping, *, context: int, draft_tokens: int, prefix_caching: bool, in_flight_tokens: int
) -> int:
    """Return the blocks that one request of `context` tokens may take, over all groups.

    Args:
        grouping: the layers.
        context: prompt and answer, tokens.
        draft_tokens: n; a state is kept for each position that may be rejected.
        prefix_caching: keeps one state more (mamba cache mode `align`).
        in_flight_tokens: tokens scheduled but not settled: max_num_batched_tokens × concurrent batches (2 with
            asynchronous scheduling).
    """
    total = 0
    for kind, groups in grouping.groups:
        if kind.kind == "full":
            each = ceil_div(context, kind.block_tokens)
        elif kind.kind == "state":
            each = (2 + kind.spare if prefix_caching else 1) + draft_tokens
        elif kind.kind == "ring":
            each = 1
        else:
            each = ceil_div(min(kind.window - 1 + in_flight_tokens, context), kind.block_tokens) + 1
        total += groups * each
    return total


def pool_tokens(blocks: int, per_request: int, max_model_len: int) -> int:
    """Return the pool as the engine's log reports it: blocks ÷ blocks of a request of max_model_len × max_model_len."""
    return int(blocks / per_request * max_model_len)


def with_block(kind: LayerKind, block_tokens: int, token_bytes: int) -> LayerKind:
    """Return an attention kind with another block size."""
    return replace(kind, block_tokens=block_tokens, page_bytes=block_tokens * token_bytes)
