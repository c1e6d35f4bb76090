"""Two sides compared prompt by prompt, with an interval for other prompts and for drift between rounds.

Both sides answered the same prompts in rounds of their own. Prompts are drawn with all their rounds and both sides
(cluster bootstrap); how much whole rounds differ by more than their requests do is estimated and added to every draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from specdeck.stats.bootstrap import (
    LEVEL,
    MIN_PROMPTS,
    RESAMPLES,
    SEED,
    percentile_interval,
    resample_sums,
    student_cdf,
    student_quantile,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.model import Interval


@dataclass(frozen=True)
class Side:
    """One side of a contrast: what each prompt adds in each round, and each round's influence on the figure.

    Attributes:
        sums: (prompts, k), what the statistic is computed from, rounds added up.
        influence: (prompts, rounds), how far each prompt and round moves the side's figure, to first order; its mean
            over everything is constant. Rounds that drift show as columns with different means.
    """

    sums: FloatArray
    influence: FloatArray


@dataclass(frozen=True)
class Contrast:
    """A difference candidate − base on the scale of the statistic.

    `drift` is the standard error that drift between rounds adds; None when both sides have a single round.
    """

    value: float
    interval: Interval | None
    p_value: float | None
    drift: float | None


def contrast(
    base: Side,
    candidate: Side,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> Contrast | None:
    """Compare two sides whose rows are the same prompts.

    Args:
        base: the one side.
        candidate: the other.
        statistic: maps sums of shape (resamples, k) to the figure of one side, (resamples,).
        resamples: number of draws.
        seed: of the draws.
        level: nominal coverage.

    Returns:
        None when the figure is undefined. Without interval and p value when there are fewer than MIN_PROMPTS prompts.
    """
    width = base.sums.shape[1]
    both = np.hstack([base.sums, candidate.sums])

    def difference(sums: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return statistic(sums[:, width:]) - statistic(sums[:, :width])

    value = float(difference(both.sum(axis=0, keepdims=True))[0]) if len(both) else math.nan
    if not math.isfinite(value):
        return None
    variance, df = _drift_variance(base.influence, candidate.influence)
    drift = None if df == 0 else math.sqrt(variance)
    if len(both) < MIN_PROMPTS:
        return Contrast(value, None, None, drift)
    draws = difference(resample_sums(both, resamples=resamples, seed=seed))
    degrees = len(both) - 1
    if drift:
        degrees = _effective_df(float(draws.var()), degrees, variance, df)
        draws = draws + drift * _normal_draws(resamples, seed)
    interval = percentile_interval(draws, len(both), level)
    if interval is None:
        return Contrast(value, None, None, drift)
    wider = student_quantile((1 + level) / 2, degrees) / student_quantile((1 + level) / 2, len(both) - 1)
    interval = replace(interval, lo=value - wider * (value - interval.lo), hi=value + wider * (interval.hi - value))
    return Contrast(value, interval, p_value(draws, value, len(both), degrees), drift)


def p_value(draws: FloatArray, value: float, clusters: int, degrees: int) -> float:
    """Two-sided p value of "no difference".

    The share of draws beyond 0 as a normal quantile, narrowed as `percentile_interval` widens, is taken as Student's t
    with so many degrees of freedom. Where fewer than ten draws say it, value / standard deviation says it instead.
    """
    beyond = int(min((draws <= 0).sum(), (draws >= 0).sum()))
    if beyond >= len(draws) / 2:
        return 1.0
    if beyond >= 10:
        z = -NormalDist().inv_cdf(beyond / len(draws))
    else:
        deviation = float(draws.std())
        z = abs(value) / deviation if deviation > 0 else math.inf
    t = z * math.sqrt((clusters - 1) / clusters)
    return 0.0 if math.isinf(t) else 2 * max(1 - student_cdf(t, degrees), 0.0)


def false_discovery(p_values: FloatArray) -> FloatArray:
    """Adjust p values for their number: q < 0.05 keeps the expected share of false ones among findings under 5 %.

    Benjamini and Hochberg, "Controlling the False Discovery Rate", J. R. Statist. Soc. B 57, 1995. Holds for
    independent and for positively dependent tests.
    """
    n = len(p_values)
    order = np.argsort(p_values)
    ranked = p_values[order] * n / np.arange(1, n + 1)
    adjusted = np.empty(n)
    adjusted[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return adjusted


def _drift_variance(*sides: FloatArray) -> tuple[float, int]:
    """Variance that drift between rounds adds to a difference of sides, and its degrees of freedom.

    Two-way layout prompts × rounds without replication: rounds scatter by drift and by their requests, residuals by
    their requests alone, so drift² = (mean square of rounds − mean square of residuals) / prompts, at least 0.
    The same drift is assumed on both sides.
    """
    rounds_ss = residual_ss = 0.0
    rounds_df = residual_df = 0
    prompts = 0
    for influence in sides:
        prompts, rounds = influence.shape
        if rounds < 2 or prompts < 2:
            continue
        by_round = influence.mean(axis=0)
        residual = influence - by_round - influence.mean(axis=1, keepdims=True) + influence.mean()
        rounds_ss += prompts * float(((by_round - by_round.mean()) ** 2).sum())
        residual_ss += float((residual**2).sum())
        rounds_df += rounds - 1
        residual_df += (prompts - 1) * (rounds - 1)
    if rounds_df == 0:
        return 0.0, 0
    of_a_round = max(rounds_ss / rounds_df - residual_ss / residual_df, 0.0) / prompts
    return of_a_round * sum(1 / influence.shape[1] for influence in sides), rounds_df


def _effective_df(of_prompts: float, prompts_df: int, of_drift: float, drift_df: int) -> int:
    """Degrees of freedom of a sum of two estimated variances (Welch and Satterthwaite), rounded down."""
    total = of_prompts + of_drift
    return max(1, int(total**2 / (of_prompts**2 / prompts_df + of_drift**2 / drift_df)))


@lru_cache(maxsize=4)
def _normal_draws(resamples: int, seed: int) -> FloatArray:
    drawn = np.random.default_rng([seed, 1]).standard_normal(resamples)
    drawn.flags.writeable = False
    return drawn
