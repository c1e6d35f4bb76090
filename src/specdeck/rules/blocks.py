"""Sizes of attention blocks on hybrid targets, and which of them a QSA ring allows. Pure arithmetic.

Formulas: vLLM 0.32.0, platforms/interface.py (page alignment) and models/qwen4_exp/common/qsa_cache.py (ring).
"""

from __future__ import annotations

from math import lcm

ALIGNMENT = 16
"""vLLM grows the attention block of a hybrid in steps of 16 tokens."""


def qsa_ring_capacity(ratio: int, draft_tokens: int) -> int:
    """Return the capacity of the QSA indexer's ring, tokens: ratio × ceil((ratio + n) / ratio)."""
    return ratio * -(-(ratio + draft_tokens) // ratio)


def smallest_qsa_block(auto: int, ratio: int, draft_tokens: int) -> int:
    """Return the smallest block size, tokens, that is at least `auto`, a multiple of 16 and of the ring's capacity."""
    step = lcm(ALIGNMENT, qsa_ring_capacity(ratio, draft_tokens))
    return step * -(-auto // step)


def gdn_state_bytes(
    *,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    kernel: int,
    draft_tokens: int,
    state_bytes: int = 4,
) -> int:
    """Return the bytes of one gated-delta-net state of one layer on one GPU; heads are those of that GPU.

    The convolution keeps kernel - 1 + n rows of 2 bytes a channel; the recurrent state is value_heads × key_dim ×
    value_dim numbers of `state_bytes`.
    """
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return (kernel - 1 + draft_tokens) * channels * 2 + value_heads * key_dim * value_dim * state_bytes


def hybrid_block_size(state: int, *, kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """Return the automatic attention block size, tokens: the smallest multiple of 16 whose page holds one state."""
    token = 2 * kv_heads * head_dim * element_bytes
    return ALIGNMENT * -(-state // (token * ALIGNMENT))
