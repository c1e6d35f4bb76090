"""From acceptance by position and step times to output tok/s at every draft length. Pure; see docs/method.md.

A request of T tokens takes first + steps × step: the time to its first token, and one verification step after another.
A step emits L(n) = 1 + a(1) + … + a(n) tokens, a(i) being the share of drafts whose token i is accepted. A shorter
draft is taken to be the beginning of a longer one, so that a(i) does not depend on n; what is beyond the longest
measured draft keeps the last conditional rate a(i) / a(i − 1). Step times are measured at the lengths that were run and
interpolated between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from specdeck.results.schema import Strict
from specdeck.stats.bootstrap import MIN_PROMPTS, RESAMPLES, SEED, expanded_tail, percentile_interval, resample_sums
from specdeck.stats.model import Estimate, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.sample import Sample

Basis = Literal["measured", "predicted", "extrapolated"]
"""`predicted`: a prefix of a longer measured draft. `extrapolated`: longer than anything measured."""


class TunePoint(Strict, frozen=True, kw_only=True):
    """One draft length at one concurrency; n = 0 is no drafter. Times in seconds, throughput in tokens a second.

    `output_tok_s.interval` covers other prompts and, where step times had to be guessed, the range of the guess.
    `step_basis` says where `step_s` comes from.
    """

    n: int
    basis: Basis
    acceptance_length: Estimate
    step_s: float | None
    step_basis: Literal["measured", "profile", "between", "beyond", "bounds", "unknown"]
    output_tok_s: Estimate
    measured_tok_s: float | None = None


class Advice(Strict, frozen=True, kw_only=True):
    """The best predicted draft length of a method at one concurrency, and what cannot be told apart from it.

    `tied`: other lengths whose ratio to the best has an interval that includes 1, or for which there is none.
    `rounds`: the fewest that any arm was measured in.
    """

    method: str
    concurrency: int
    points: tuple[TunePoint, ...]
    best: int | None
    tied: tuple[int, ...] = ()
    rounds: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Arm:
    """A measured arm at one concurrency: its draft length (0: none) and its sums by prompt."""

    n: int
    sample: Sample


@dataclass(frozen=True)
class _Draws:
    """Sums over drawn prompts, shape (1 + resamples,); the first entry is what was observed."""

    tokens: FloatArray
    e2e: FloatArray
    requests: FloatArray
    first: FloatArray
    steps: FloatArray
    accepted_at: FloatArray


@dataclass(frozen=True)
class _Step:
    """Step times of one length as two bounds; equal where the time was measured or interpolated."""

    low: FloatArray
    high: FloatArray
    basis: Literal["measured", "profile", "between", "beyond", "bounds"]


def acceptance_by_length(rates: Sequence[float], longest: int) -> list[float]:
    """Acceptance length at n = 1 … longest, from the rates of a measured draft.

    Args:
        rates: share of drafts whose token i was accepted, from position 1.
        longest: draft length up to which to go; beyond the rates the last conditional one is kept.
    """
    return [float(value) for value in _lengths(np.array([[*rates]], dtype=np.float64), longest)[0]]


def advise(
    method: str,
    concurrency: int,
    arms: Sequence[Arm],
    longest: int,
    *,
    step_s: Mapping[int, float] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Advice:
    """Predict every draft length from 0 to `longest` and choose.

    Args:
        method: what drafts in these arms.
        concurrency: of all of them.
        arms: measured arms of the method, and the one without a drafter (n = 0) where there is one.
        longest: the longest draft to predict; measured ones beyond it are predicted too.
        step_s: seconds a step by draft length, measured elsewhere; replaces what the arms say about time.
        resamples: number of bootstrap draws.
        seed: of the draws.

    Returns:
        Without points and with a reason where nothing can be said.
    """
    drafting = sorted((arm for arm in arms if arm.n > 0), key=lambda arm: arm.n)
    if not drafting:
        return Advice(method=method, concurrency=concurrency, points=(), best=None, reason="nothing drafts")
    drawn, prompts, why = _draw([arm.sample for arm in arms], resamples, seed)
    if why:
        return Advice(method=method, concurrency=concurrency, points=(), best=None, reason=why)
    by_n = {arm.n: draws for arm, draws in zip(arms, drawn, strict=True)}
    longest = max(longest, drafting[-1].n)
    steps = _step_times(by_n, step_s, longest)
    points, bounds = [], {}
    for n in [0, *range(1, longest + 1)]:
        found = _predict(n, arms, by_n, steps.get(n), prompts, from_profile=step_s is not None)
        if found is None:
            continue
        point, low, high = found
        points.append(point)
        if low is not None and high is not None:
            bounds[n] = (low, high)
    known = {p.n: p.output_tok_s.value for p in points if p.output_tok_s.value is not None}
    if not known:
        return Advice(
            method=method, concurrency=concurrency, points=tuple(points), best=None, reason="no step time is known"
        )
    best = max(known, key=lambda n: known[n] or 0.0)
    tied = tuple(n for n in known if n != best and _tied(bounds.get(best), bounds.get(n), prompts))
    rounds = min(len(arm.sample.rounds) for arm in arms)
    return Advice(method=method, concurrency=concurrency, points=tuple(points), best=best, tied=tied, rounds=rounds)


def _draw(samples: Sequence[Sample], resamples: int, seed: int) -> tuple[list[_Draws], int, str | None]:
    """The same prompts drawn for all arms, over the prompts that every arm answered; or why not."""
    shared = sorted(set.intersection(*(set(sample.prompts) for sample in samples)))
    if not shared:
        return [], 0, "the arms have no prompt in common"
    found = []
    for sample in samples:
        place = {name: i for i, name in enumerate(sample.prompts)}
        rows = [place[name] for name in shared]
        sums = {name: column[rows].sum(axis=1) for name, column in sample.sums.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            first = sums["requests"] * np.exp(sums["ttft_log"] / sums["ttft_n"])
        steps = sums["steps"] if sample.accepted_at.shape[2] else sums["tokens"] - sums["requests"]
        columns = [sums["tokens"], sums["e2e_s"], sums["requests"], first, steps]
        columns += list(sample.accepted_at[rows].sum(axis=1).T)
        table = np.stack(columns, axis=1)
        if np.isnan(table).any() or not table[:, 4].sum():
            return [], 0, "answers lack usage or their own acceptance: serve with --per-request-spec-decode-metrics"
        observed = table.sum(axis=0, keepdims=True)
        drawn = resample_sums(table, resamples=resamples, seed=seed) if len(shared) >= MIN_PROMPTS else observed[:0]
        both = np.concatenate([observed, drawn])
        found.append(_Draws(both[:, 0], both[:, 1], both[:, 2], both[:, 3], both[:, 4], both[:, 5:]))
    return found, len(shared), None


def _step_times(by_n: Mapping[int, _Draws], given: Mapping[int, float] | None, longest: int) -> dict[int, _Step]:
    """Seconds a step at each length that can be said anything about."""
    width = len(next(iter(by_n.values())).tokens)
    basis: Literal["measured", "profile"] = "profile" if given else "measured"
    if given:
        known = {n: np.full(width, seconds) for n, seconds in given.items()}
    else:
        known = {n: (draws.e2e - draws.first) / draws.steps for n, draws in by_n.items()}
    steps = {n: _Step(seconds, seconds, basis) for n, seconds in known.items()}
    drafted = sorted(n for n in known if n > 0)
    for n in range(1, longest + 1):
        if n in known or not drafted:
            continue
        if len(drafted) > 1:
            steps[n] = _between(n, drafted, known)
        elif 0 in known:
            # One length alone: the drafter's cost is the same at every length, or proportional to it, or in between.
            fixed, only = known[drafted[0]], drafted[0]
            proportional = known[0] + (fixed - known[0]) * n / only
            steps[n] = _Step(np.minimum(fixed, proportional), np.maximum(fixed, proportional), "bounds")
    return steps


def _between(n: int, drafted: Sequence[int], known: Mapping[int, FloatArray]) -> _Step:
    """Linear between the two measured neighbours; beyond the outermost, along the line through all."""
    if drafted[0] < n < drafted[-1]:
        below = max(m for m in drafted if m < n)
        above = min(m for m in drafted if m > n)
        seconds = known[below] + (known[above] - known[below]) * (n - below) / (above - below)
        return _Step(seconds, seconds, "between")
    table = np.stack([known[m] for m in drafted])
    offsets = np.array(drafted, dtype=np.float64) - np.mean(drafted)
    slope = np.maximum(offsets @ table / (offsets @ offsets), 0.0)
    edge = drafted[0] if n < drafted[0] else drafted[-1]
    seconds = np.maximum(known[edge] + slope * (n - edge), known.get(0, np.zeros(1)))
    return _Step(seconds, seconds, "beyond")


def _predict(
    n: int, arms: Sequence[Arm], by_n: Mapping[int, _Draws], step: _Step | None, prompts: int, *, from_profile: bool
) -> tuple[TunePoint, FloatArray | None, FloatArray | None] | None:
    """A point, and the draws of its throughput at the slow and at the fast bound of the step time."""
    if n == 0 and n not in by_n and step is None:
        return None
    source = _source(n, by_n)
    draws = by_n[source]
    own = n in by_n
    basis: Basis = "measured" if own else "predicted" if n < source or n == 0 else "extrapolated"
    lengths = np.ones_like(draws.tokens) if n == 0 else _lengths(draws.accepted_at / draws.steps[:, None], n)[:, -1]
    at_source = _lengths(draws.accepted_at / draws.steps[:, None], source)[:, -1] if source else np.ones_like(lengths)
    length = Estimate() if n == 0 else _estimate(lengths, lengths, prompts)
    measured = None
    if own and not from_profile:
        sample = next(arm.sample for arm in arms if arm.n == n)
        measured = _measured_tok_s(sample)
    if step is None:
        return (
            TunePoint(
                n=n, basis=basis, acceptance_length=length, step_s=None, step_basis="unknown", output_tok_s=Estimate()
            ),
            None,
            None,
        )
    # The last step of an answer emits less than it could: how much less is taken from the measured arm.
    whole = (draws.tokens - draws.requests) / (draws.steps * at_source)
    needed = (draws.tokens - draws.requests) / (whole * lengths)
    scale = _in_flight(next(arm.sample for arm in arms if arm.n == source))
    slow = scale * draws.tokens / (draws.first + needed * step.high)
    fast = scale * draws.tokens / (draws.first + needed * step.low)
    point = TunePoint(
        n=n,
        basis=basis,
        acceptance_length=length,
        step_s=float((step.low[0] + step.high[0]) / 2),
        step_basis=step.basis,
        output_tok_s=_estimate(slow, fast, prompts),
        measured_tok_s=measured,
    )
    return point, slow, fast


def _source(n: int, by_n: Mapping[int, _Draws]) -> int:
    """The measured length whose acceptance speaks for n: itself, else the shortest longer one, else the longest."""
    if n in by_n:
        return n
    drafted = sorted(m for m in by_n if m > 0)
    return next((m for m in drafted if m > n), drafted[-1])


def _lengths(rates: FloatArray, longest: int) -> FloatArray:
    """Acceptance lengths at 1 … longest from rates of shape (draws, positions): (draws, longest)."""
    columns = [rates[:, i] for i in range(min(rates.shape[1], longest))]
    if len(columns) < longest:
        last = columns[-1]
        before = columns[-2] if len(columns) > 1 else np.ones_like(last)
        with np.errstate(divide="ignore", invalid="ignore"):
            keep = np.where(before > 0, np.minimum(last / before, 1.0), 0.0)
        while len(columns) < longest:
            columns.append(columns[-1] * keep)
    found: FloatArray = 1 + np.cumsum(np.stack(columns, axis=1), axis=1)
    return found


def _in_flight(sample: Sample) -> float:
    """Output tok/s over tokens per request time: the mean number of requests in flight, held at what was observed."""
    return (_measured_tok_s(sample) or math.nan) / float(sample.sums["tokens"].sum() / sample.sums["e2e_s"].sum())


def _measured_tok_s(sample: Sample) -> float | None:
    tokens = [item.tokens for item in sample.rounds]
    if None in tokens:
        return None
    return sum(t for t in tokens if t is not None) / sum(item.duration_s for item in sample.rounds)


def _estimate(low: FloatArray, high: FloatArray, prompts: int) -> Estimate:
    """The middle of two observed bounds, with the lower end of the one and the upper end of the other."""
    value = float((low[0] + high[0]) / 2)
    if not math.isfinite(value):
        return Estimate()
    ends = [percentile_interval(draws[1:], prompts) for draws in (low, high)] if len(low) > 1 else [None, None]
    interval = None
    if ends[0] is not None and ends[1] is not None:
        interval = Interval(lo=ends[0].lo, hi=ends[1].hi, prompts=prompts, level=ends[0].level)
    return Estimate(value=value, interval=interval)


def _tied(
    best: tuple[FloatArray, FloatArray] | None, other: tuple[FloatArray, FloatArray] | None, prompts: int
) -> bool:
    """Whether the best at its slowest is not surely faster than the other at its fastest, over the same draws."""
    if best is None or other is None or len(best[0]) < 2:
        return True
    ratios = np.log(best[0][1:] / other[1][1:])
    if not np.isfinite(ratios).all():
        return True
    return float(np.quantile(ratios, expanded_tail(prompts))) <= 0
