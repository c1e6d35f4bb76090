"""How long a verification step takes, and the acceptance length from which it pays for itself.

A request's decoding, from its first to its last token, is one step after another. Without a drafter a step emits one
token, so that there are tokens - 1 of them; with one, the answer's payload counts its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.acceptance import pool
from specdeck.stats.bootstrap import cluster_interval
from specdeck.stats.model import Estimate, Interval, Spread
from specdeck.stats.observations import Observations, observe, quotient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import Cell, RequestRecord
    from specdeck.stats.bootstrap import FloatArray

    Measured = Sequence[tuple[Cell, Sequence[RequestRecord]]]


def step_time(cells: Measured, *, drafting: bool) -> Estimate:
    """Seconds a verification step: sum of decoding times / sum of steps, over the answers of two tokens or more.

    With concurrency this is the time between two steps of one request, other requests' prefills included.

    Args:
        cells: of one arm at one concurrency.
        drafting: whether the arm drafts. Where its answers carry no payload, the server's count of drafts is used
            and there is no interval.

    Returns:
        Without a value where tokens, steps or times are not known.
    """
    sums = _sums(observe(cells), drafting=drafting)
    if sums is not None:
        value = quotient(float(sums[:, 0].sum()), float(sums[:, 1].sum()))
        if value is None:
            return Estimate()
        rounds = [_one_round([item], drafting=drafting) for item in cells]
        known = [seconds for seconds in rounds if seconds is not None]
        return Estimate(
            value=value,
            interval=cluster_interval(sums, lambda drawn: drawn[:, 0] / drawn[:, 1]),
            spread=Spread(min=min(known), max=max(known), rounds=len(known)) if known else None,
        )
    return Estimate(value=_by_counters(cells)) if drafting else Estimate()


def break_even(arm: Measured, base: Measured) -> Estimate:
    """Acceptance length at which a drafting arm's decoding is as fast as the baseline's: its step / the baseline's.

    The interval draws prompts answered in both arms, each with all its rounds.
    """
    ours, theirs = step_time(arm, drafting=True), step_time(base, drafting=False)
    value = quotient(ours.value, theirs.value)
    if value is None:
        return Estimate()
    mine, other = observe(arm), observe(base)
    shared = set(mine.prompts) & set(other.prompts)
    a = _sums(mine.of_prompts(shared), drafting=True)
    b = _sums(other.of_prompts(shared), drafting=False)
    if a is None or b is None or len(a) != len(b):
        return Estimate(value=value)
    return Estimate(value=value, interval=_ratio_interval(np.hstack([a, b])))


def _ratio_interval(sums: FloatArray) -> Interval | None:
    return cluster_interval(sums, lambda drawn: drawn[:, 0] / drawn[:, 1] / (drawn[:, 2] / drawn[:, 3]))


def _sums(seen: Observations, *, drafting: bool) -> FloatArray | None:
    """Decoding seconds and steps of each prompt, shape (prompts, 2); None where an answer does not tell."""
    told = seen.where(~(seen.tokens < 2))
    steps = told.steps if drafting else told.tokens - 1
    span = told.tpot_s * (told.tokens - 1)
    if len(told) == 0 or np.isnan(steps).any() or np.isnan(span).any():
        return None
    return told.per_prompt(span, steps)


def _one_round(cells: Measured, *, drafting: bool) -> float | None:
    sums = _sums(observe(cells), drafting=drafting)
    return None if sums is None else quotient(float(sums[:, 0].sum()), float(sums[:, 1].sum()))


def _by_counters(cells: Measured) -> float | None:
    seen = observe(cells)
    told = seen.where(~(seen.tokens < 2))
    span = told.tpot_s * (told.tokens - 1)
    if len(told) == 0 or np.isnan(span).any():
        return None
    return quotient(float(span.sum()), pool([cell.counters for cell, _ in cells]).drafts)
