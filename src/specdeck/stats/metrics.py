"""What is compared between two measurements, and how each figure is made from sums by prompt and round.

| metric | figure | compared as |
| output_tok_s | Σ tokens / Σ durations; paired on Σ tokens / Σ end-to-end times | ratio |
| ttft_s, tpot_s | geometric mean over prompts of the prompt's own (geometric) mean over requests | ratio |
| acceptance_length, acceptance_at | 1 + Σ accepted / Σ drafts; Σ accepted there / Σ drafts | difference |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from specdeck.stats.contrast import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.sample import Sample


def _log_rate(sums: FloatArray) -> FloatArray:
    return np.log(sums[:, 0] / sums[:, 1]) + sums[:, 2] / sums[:, 3]


def _mean(sums: FloatArray) -> FloatArray:
    return sums[:, 0] / sums[:, 1]


@dataclass(frozen=True)
class Metric:
    """One compared figure. `statistic` maps a side's sums to the figure (ratios: to its logarithm)."""

    name: str
    title: str
    kind: Literal["ratio", "difference"]
    higher_is_better: bool
    statistic: Callable[[FloatArray], FloatArray]
    by_position: bool = False


METRICS = (
    Metric("output_tok_s", "output tok/s", "ratio", True, _log_rate),
    Metric("ttft_s", "TTFT", "ratio", False, _mean),
    Metric("tpot_s", "TPOT", "ratio", False, _mean),
    Metric("acceptance_length", "acceptance length", "difference", True, _mean),
    Metric("acceptance_at", "acceptance at position", "difference", True, _mean, by_position=True),
)
TITLES = {metric.name: metric.title for metric in METRICS}


@dataclass(frozen=True)
class Pair:
    """Both sides over the prompts they share, and the figures that a reader sees beside the contrast."""

    base: Side
    candidate: Side
    base_figure: float | None
    candidate_figure: float | None


def sides(metric: Metric, position: int | None, base: Sample, candidate: Sample) -> Pair | str | None:
    """Bring two samples into the form of a contrast.

    Only prompts count that every round of both sides answered equally often: a prompt missing from one round would
    weigh less on that side. For times only those that have the time in every round.

    Returns:
        None when the metric does not exist here (no drafter), a sentence when it exists but cannot be compared.
    """
    shared = _whole(base) & _whole(candidate)
    if metric.name in ("ttft_s", "tpot_s"):
        shared &= _timed(base, metric.name) & _timed(candidate, metric.name)
        if not shared:
            return f"no prompt has a {metric.title} in every round of both sides"
    a, b = _rows(base, shared), _rows(candidate, shared)
    if metric.name.startswith("acceptance"):
        drafting = [bool(s.accepted_at.shape[2]) or bool(s.rounds[0].counters.drafts) for s in (base, candidate)]
        if not any(drafting):
            return None
        if not all(drafting):
            return "only one side drafts"
        if position is not None and position > min(s.accepted_at.shape[2] for s in (base, candidate)):
            return "only one side drafts that far"
    found = [_side(metric.name, position, sample, rows) for sample, rows in ((base, a), (candidate, b))]
    if any(isinstance(side, str) for side in found):
        return next(side for side in found if isinstance(side, str))
    one, other = found
    assert not isinstance(one, str)
    assert not isinstance(other, str)
    if not len(one.sums):
        return "no prompt was answered in every round of both sides"
    return Pair(one, other, _figure(metric, one), _figure(metric, other))


def _side(name: str, position: int | None, sample: Sample, rows: list[int]) -> Side | str:
    columns = {key: column[rows] for key, column in sample.sums.items()}
    if name == "output_tok_s":
        return _rate_side(sample, columns)
    if name in ("ttft_s", "tpot_s"):
        return _log_time_side(columns[f"{name[:4]}_n"], columns[f"{name[:4]}_log"])
    steps = columns["steps"]
    accepted = columns["accepted"] + steps if position is None else sample.accepted_at[rows][:, :, position - 1]
    if np.isnan(steps).any() or np.isnan(accepted).any():
        return "answers without their own acceptance: serve with --per-request-spec-decode-metrics"
    if not steps.sum():
        return "nothing was drafted"
    length = accepted.sum() / steps.sum()
    influence = (accepted - length * steps) / steps.mean()
    return Side(np.stack([accepted.sum(axis=1), steps.sum(axis=1)], axis=1), influence)


def _rate_side(sample: Sample, columns: dict[str, FloatArray]) -> Side | str:
    """Tokens per request time by prompt; the mean number in flight comes in by round, as drift does.

    Columns of the sums: tokens, time, and per prompt the logarithm of (output tok/s / tokens per request time) of the
    whole side with a count of 1, so that every draw keeps it.
    """
    tokens, times = columns["tokens"], columns["e2e_s"]
    if np.isnan(tokens).any() or any(r.tokens is None for r in sample.rounds):
        return "an answer lacks its usage"
    if not tokens.sum() or not times.sum():
        return "nothing was generated"
    whole = sum(r.tokens or 0 for r in sample.rounds) / sum(r.duration_s for r in sample.rounds)
    every = sample.sums
    of_requests = every["tokens"].sum() / every["e2e_s"].sum()
    in_flight = np.log(whole / of_requests)
    by_round = np.array([(r.tokens or 0) / r.duration_s for r in sample.rounds])
    own = every["tokens"].sum(axis=0) / every["e2e_s"].sum(axis=0)
    influence = tokens / tokens.mean() - times / times.mean() + np.log(by_round / own)
    ones = np.ones(len(tokens))
    return Side(np.stack([tokens.sum(axis=1), times.sum(axis=1), in_flight * ones, ones], axis=1), influence)


def _log_time_side(count: FloatArray, logs: FloatArray) -> Side:
    own = logs / count
    return Side(np.stack([own.mean(axis=1), np.ones(len(own))], axis=1), own)


def _figure(metric: Metric, side: Side) -> float | None:
    value = float(metric.statistic(side.sums.sum(axis=0, keepdims=True))[0])
    return float(np.exp(value)) if metric.kind == "ratio" else value


def _whole(sample: Sample) -> set[str]:
    requests = sample.sums["requests"]
    complete = (requests == requests.max(initial=0)).all(axis=1) & (requests > 0).all(axis=1)
    return {name for name, there in zip(sample.prompts, complete, strict=True) if there}


def _timed(sample: Sample, name: str) -> set[str]:
    """Prompts whose time is known in every round: an answer that comes in one piece has no time per output token."""
    counts = sample.sums[f"{name[:4]}_n"]
    return {prompt for prompt, row in zip(sample.prompts, counts, strict=True) if row.all()}


def _rows(sample: Sample, shared: set[str]) -> list[int]:
    return [i for i, name in enumerate(sample.prompts) if name in shared]
