"""Shares of yes-or-no outcomes: their interval, and whether one arm has more of them than another, paired."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from specdeck.stats.bootstrap import LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence


def wilson(hits: int, n: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Wilson's score interval of a share (Wilson, JASA 22, 1927); None without any outcome.

    Args:
        hits: how many of `n` said yes.
        n: independent outcomes.
        level: nominal coverage.
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """One-sided exact p-value of McNemar's test: as many as `only_ours` of the discordant pairs, by chance alone.

    Args:
        only_ours: pairs in which only our side said yes.
        only_theirs: pairs in which only the other side did.
    """
    n = only_ours + only_theirs
    return float(sum(math.comb(n, k) for k in range(only_ours, n + 1)) / 2**n)


def excess(ours: Sequence[bool], theirs: Sequence[bool]) -> float:
    """One-sided p-value that our outcomes are true no more often than theirs, paired (McNemar's exact test)."""
    return mcnemar(
        sum(a and not b for a, b in zip(ours, theirs, strict=True)),
        sum(b and not a for a, b in zip(ours, theirs, strict=True)),
    )
