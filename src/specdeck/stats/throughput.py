"""Output tokens a second of cells, and of an arm relative to the baseline, paired by prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.bootstrap import cluster_interval
from specdeck.stats.model import Estimate, Interval, Spread
from specdeck.stats.observations import masked, observe, pairs, quotient, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import Cell, RequestRecord
    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.observations import Observations

    Measured = Sequence[tuple[Cell, Sequence[RequestRecord]]]


@dataclass(frozen=True)
class PairedRatio:
    """A ratio to the baseline, and what it could be paired on."""

    ratio: Estimate
    rounds: tuple[int, ...]
    paired: int
    unpaired: int


def completion_tokens(seen: Observations) -> int | None:
    """Tokens of the answered requests by usage; None when any of them lacks usage or none was answered."""
    tokens = total(seen.tokens)
    return None if tokens is None else int(tokens)


def output_tok_s(cells: Measured) -> Estimate:
    """Sum of tokens / sum of durations over rounds, with each round's smallest and largest, and an interval.

    The interval resamples prompts in sum(tokens) / sum(end-to-end time) and is scaled to the figure, which holds the
    mean number of requests in flight at what was observed.
    """
    tokens = [completion_tokens(observe([item])) for item in cells]
    rates = [quotient(t, cell.duration_s) for t, (cell, _) in zip(tokens, cells, strict=True)]
    known = [rate for rate in rates if rate is not None]
    if not rates or len(known) < len(rates):
        return Estimate()
    value = sum(t for t in tokens if t is not None) / sum(cell.duration_s for cell, _ in cells)
    seen = observe(cells)
    return Estimate(
        value=value,
        interval=_scaled(seen.per_prompt(seen.tokens, seen.e2e_s), value),
        spread=Spread(min=min(known), max=max(known), rounds=len(known)),
    )


def request_tok_s(seen: Observations) -> float | None:
    """Tokens a second of a request's own time: sum(tokens) / sum(end-to-end time)."""
    return quotient(total(seen.tokens), total(seen.e2e_s))


def paired_ratio(arm: Measured, base: Measured) -> PairedRatio:
    """Compare two arms at one concurrency over the rounds both have.

    The figure is the quotient of pooled output tok/s. Its interval draws prompts, each with all its rounds and both
    arms, on the quotient of sum(tokens) / sum(end-to-end time), over requests answered in both arms.
    """
    rounds = tuple(sorted({cell.round for cell, _ in arm} & {cell.round for cell, _ in base}))
    ours = [(cell, records) for cell, records in arm if cell.round in rounds]
    theirs = [(cell, records) for cell, records in base if cell.round in rounds]
    mine, other = observe(ours), observe(theirs)
    at_mine, at_other = pairs(mine, other)
    shared = len(at_mine)
    unpaired = len(mine) + len(other) - 2 * shared
    value = quotient(output_tok_s(ours).value, output_tok_s(theirs).value)
    if value is None:
        return PairedRatio(Estimate(), rounds, shared, unpaired)
    a, b = mine.where(masked(at_mine, len(mine))), other.where(masked(at_other, len(other)))
    interval = None
    if shared:
        sums = np.hstack([a.per_prompt(a.tokens, a.e2e_s), b.per_prompt(b.tokens, b.e2e_s)])
        interval = _scaled(sums, value)
    return PairedRatio(Estimate(value=value, interval=interval), rounds, shared, unpaired)


def _scaled(sums: FloatArray, value: float) -> Interval | None:
    """Interval of tokens / time (over that of the other arm, when there are four columns), moved to `value`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = float(_rate(sums.sum(axis=0, keepdims=True))[0])
    if not np.isfinite(own) or own == 0:
        return None
    scale = value / own
    return cluster_interval(sums, lambda drawn: scale * _rate(drawn))


def _rate(sums: FloatArray) -> FloatArray:
    rate = sums[:, 0] / sums[:, 1]
    return rate if sums.shape[1] == 2 else rate / (sums[:, 2] / sums[:, 3])
