"""Answers beyond the memory budget come back from the disk as they were, and a full disk loses none."""

from __future__ import annotations

import errno
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from specdeck.load.exchange import Exchange
from specdeck.load.spill import SEGMENT_BYTES, Spill

if TYPE_CHECKING:
    import pytest

SEGMENTS = st.lists(st.tuples(st.floats(allow_nan=False), st.binary(max_size=50)), max_size=8)


def _exchange(index: int, segments: list[tuple[float, bytes]]) -> Exchange:
    return Exchange("r", index, 0.0, stamps=[s for s, _ in segments], chunks=[c for _, c in segments])


@given(st.lists(SEGMENTS, max_size=6), st.integers(0, 800))
def test_what_is_put_comes_back_in_any_order_whatever_the_budget(answers: list[Any], budget: int) -> None:
    exchanges = [_exchange(index, segments) for index, segments in enumerate(answers)]
    with Spill(budget) as spill:
        for exchange in exchanges:
            spill.put(exchange)
        for exchange in reversed(exchanges):
            spill.fetch(exchange)
    found = [list(zip(exchange.stamps, exchange.chunks, strict=True)) for exchange in exchanges]
    assert found == answers


def test_beyond_the_budget_memory_holds_nothing_of_an_answer() -> None:
    with Spill(10 + SEGMENT_BYTES) as spill:
        small, large = _exchange(0, [(1.0, b"x" * 10)]), _exchange(1, [(2.0, b"y" * 10)])
        spill.put(small)
        spill.put(large)
        assert (small.chunks, large.chunks, large.stamps) == ([b"x" * 10], [], [])


def test_a_full_disk_leaves_answers_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(**_options: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    with Spill(0) as spill:
        exchanges = [_exchange(index, [(1.0, b"answer")]) for index in range(3)]
        for exchange in exchanges:
            spill.put(exchange)
            spill.fetch(exchange)
        assert [exchange.chunks for exchange in exchanges] == [[b"answer"]] * 3
