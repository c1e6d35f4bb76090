"""Block sizes agree with those that were published for Qwen3.8-Flash-Next on two A100."""

from __future__ import annotations

import pytest
from support.rule_cases import CASES, FLASH_NEXT, TARGET

from specdeck.planner.kv import (
    gdn_state_bytes,
    hybrid_block_tokens,
    narrowest_qsa_ring,
    qsa_ring_capacity,
    smallest_qsa_block,
)


def automatic(draft_tokens: int) -> int:
    state = gdn_state_bytes(
        key_heads=8, value_heads=24, key_dim=128, value_dim=128, kernel=4, draft_tokens=draft_tokens
    )
    return hybrid_block_tokens(state, 2 * 256 * 2)


@pytest.mark.parametrize(
    ("drafted", "capacity"), [(1, 8), (4, 8), (5, 12), (6, 12), (7, 12), (8, 12), (9, 16), (12, 16)]
)
def test_the_ring_holds_what_was_published(drafted: int, capacity: int) -> None:
    assert qsa_ring_capacity(4, drafted) == capacity


@pytest.mark.parametrize(
    ("drafted", "auto", "block"), [(5, 1616, 1632), (6, 1632, 1632), (7, 1648, 1680), (8, 1648, 1680)]
)
def test_the_smallest_valid_block_is_the_published_one(drafted: int, auto: int, block: int) -> None:
    assert automatic(drafted) == auto
    assert smallest_qsa_block(auto, 4, drafted) == block


@pytest.mark.parametrize("drafted", [1, 2, 3, 4, 9, 12])
def test_other_draft_lengths_need_no_block_size(drafted: int) -> None:
    assert automatic(drafted) % qsa_ring_capacity(4, drafted) == 0


@pytest.mark.parametrize("drafted", range(1, 33))
def test_the_smallest_block_is_valid_and_no_smaller_one_is(drafted: int) -> None:
    capacity, auto = qsa_ring_capacity(4, drafted), automatic(drafted)
    block = smallest_qsa_block(auto, 4, drafted)
    valid = [size for size in range(auto, block + 1) if size % 16 == 0 and size % capacity == 0]
    assert valid == [block]


def test_the_cases_describe_the_checkpoint_these_sizes_are_of() -> None:
    assert CASES["qsa-ring-capacity"].target is FLASH_NEXT
    assert TARGET["text_config"]["head_dim"] == 256


@pytest.mark.parametrize(
    ("drafted", "block", "ring"),
    [(3, 1616, 8), (5, 1616, 16), (7, 1648, 16), (7, 1680, 12), (7, 832, 16), (12, 1616, 16)],
)
def test_the_patched_ring_is_the_narrowest_that_fits_the_automatic_block(drafted: int, block: int, ring: int) -> None:
    assert narrowest_qsa_ring(4, drafted, block) == ring


@pytest.mark.parametrize("drafted", range(13))
def test_the_patched_ring_fits_every_automatic_block(drafted: int) -> None:
    assert narrowest_qsa_ring(4, drafted, automatic(drafted)) is not None


def test_no_ring_fits_a_block_that_is_smaller_than_what_it_holds() -> None:
    assert narrowest_qsa_ring(4, 13, 16) is None
