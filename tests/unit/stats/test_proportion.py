"""Intervals of shares and the paired test, against values worked out elsewhere."""

from __future__ import annotations

import pytest

from specdeck.stats.proportion import mcnemar, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (296, 300, 0.9663, 0.9948)],
)
def test_wilsons_interval(hits: int, n: int, low: float, high: float) -> None:
    assert wilson(hits, n) == pytest.approx((low, high), abs=1e-4)


def test_no_outcome_has_no_interval() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "p"), [(0, 0, 1.0), (8, 0, 1 / 256), (0, 8, 1.0), (5, 1, 7 / 64), (1, 1, 0.75)]
)
def test_the_exact_paired_test(ours: int, theirs: int, p: float) -> None:
    assert mcnemar(ours, theirs) == pytest.approx(p)
