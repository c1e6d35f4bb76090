"""Acceptance by two witnesses: the server's counters, and what each answer says about itself.

length = 1 + accepted / drafts; draft acceptance rate = accepted / draft tokens; position i = accepted_i / drafts.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from specdeck.results.schema import CounterDelta
from specdeck.stats.bootstrap import MIN_PROMPTS, cluster_interval, percentile_interval, resample_sums
from specdeck.stats.model import Acceptance, Estimate, Interval, Position
from specdeck.stats.observations import quotient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.observations import Observations


def pool(deltas: Sequence[CounterDelta]) -> CounterDelta:
    """Add counters over cells. A series that any cell lacks is absent from the sum."""
    columns = [delta.accepted_per_pos for delta in deltas]
    widths = {len(column) for column in columns if column is not None}
    per_position = None
    if len(widths) == 1 and None not in columns:
        per_position = tuple(sum(values) for values in zip(*(c for c in columns if c is not None), strict=True))
    return CounterDelta(
        drafts=_sum(d.drafts for d in deltas),
        draft_tokens=_sum(d.draft_tokens for d in deltas),
        accepted_tokens=_sum(d.accepted_tokens for d in deltas),
        accepted_per_pos=per_position,
        prompt_tokens=_sum(d.prompt_tokens for d in deltas),
        generation_tokens=_sum(d.generation_tokens for d in deltas),
        prefix_cache_queries=_sum(d.prefix_cache_queries for d in deltas),
        prefix_cache_hits=_sum(d.prefix_cache_hits for d in deltas),
        preemptions=_sum(d.preemptions for d in deltas),
        requests_success=_sum(d.requests_success for d in deltas),
    )


def acceptance_length(accepted: float | None, drafts: float | None) -> float | None:
    """1 + accepted / drafts: tokens a verification step emits, the bonus token included. None without drafts."""
    rate = quotient(accepted, drafts)
    return None if rate is None else 1 + rate


def positions_from_counters(counters: CounterDelta) -> tuple[float, ...] | None:
    """Share of drafts accepted at each position, from position 1."""
    if counters.accepted_per_pos is None or not counters.drafts:
        return None
    return tuple(count / counters.drafts for count in counters.accepted_per_pos)


def positions_agree(counters: CounterDelta) -> bool | None:
    """Whether the positions' counts sum to the accepted tokens, so that rates sum to acceptance length - 1."""
    if counters.accepted_per_pos is None or counters.accepted_tokens is None:
        return None
    return sum(counters.accepted_per_pos) == counters.accepted_tokens


def with_payload(seen: Observations) -> Observations:
    """The requests whose answer carried a payload."""
    return seen.where(~np.isnan(seen.steps))


def length_from_payloads(seen: Observations) -> Estimate:
    """Token-weighted acceptance length (a ratio of sums, not a mean of ratios) with its interval over prompts."""
    told = with_payload(seen)
    if len(told) == 0:
        return Estimate()
    sums = told.per_prompt(told.accepted, told.steps)
    value = acceptance_length(float(sums[:, 0].sum()), float(sums[:, 1].sum()))
    return Estimate(value=value, interval=None if value is None else cluster_interval(sums, _length))


def acceptance(counters: CounterDelta, seen: Observations) -> Acceptance:
    """Bring both witnesses together. The counters' figure leads; where they are absent, the payloads'."""
    told = with_payload(seen)
    payloads = length_from_payloads(told)
    counted = acceptance_length(counters.accepted_tokens, counters.drafts)
    rate = quotient(counters.accepted_tokens, counters.draft_tokens)
    if rate is None and counters.draft_tokens is None and len(told):
        rate = quotient(float(told.accepted.sum()), float(told.drafted.sum()))
    value = counted if counted is not None else payloads.value
    return Acceptance(
        length=Estimate(value=value, interval=payloads.interval if value is not None else None),
        length_from_counters=counted,
        length_from_payloads=payloads.value,
        draft_acceptance_rate=rate,
        drafts=counters.drafts,
        draft_tokens=counters.draft_tokens,
        accepted_tokens=counters.accepted_tokens,
        requests_with_payload=len(told),
    )


def positions(counters: CounterDelta, seen: Observations) -> tuple[Position, ...]:
    """Per-position rates by the counters (else the payloads), with intervals over prompts where payloads allow."""
    told = seen.where(~np.isnan(seen.steps) & ~np.isnan(seen.accepted_at).any(axis=1))
    width = told.accepted_at.shape[1]
    sums = told.per_prompt(told.steps, *told.accepted_at.T) if len(told) else np.zeros((0, width + 1))
    rates = positions_from_counters(counters)
    if rates is None:
        steps = float(sums[:, 0].sum())
        rates = tuple(float(sums[:, i].sum()) / steps for i in range(1, width + 1)) if steps else ()
    return tuple(
        Position(position=i, rate=Estimate(value=rate, interval=interval))
        for i, (rate, interval) in enumerate(zip_longest(rates, _position_intervals(sums)[: len(rates)]), start=1)
    )


def _position_intervals(sums: FloatArray) -> list[Interval | None]:
    """One interval a position, from columns steps, accepted at 1, accepted at 2, …; all from the same draws."""
    if len(sums) < MIN_PROMPTS:
        return []
    drawn = resample_sums(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = drawn[:, 1:] / drawn[:, :1]
    return [percentile_interval(column, len(sums)) for column in rates.T]


def _length(sums: FloatArray) -> FloatArray:
    return 1 + sums[:, 0] / sums[:, 1]


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if found and len(known) == len(found) else None
