"""Cluster bootstrap over prompts: seeded, vectorised, exact about what it can and cannot say.

A prompt is drawn with everything measured on it, all its rounds: repetitions of one prompt are not independent.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.model import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

LEVEL = 0.95
RESAMPLES = 10_000
QUANTILE_RESAMPLES = 2_000
SEED = 20_240_607
MIN_PROMPTS = 6
"""Below six prompts even [smallest, largest] covers a median in less than 95 % of samples (1 - 2 / 2**n)."""
MAX_QUANTILE_VALUES = 5_000
"""Beyond it a quantile's interval comes from the variance of the share below it instead of draws."""
MAX_CLUSTERS = 1_000
"""More prompts are drawn in so many groups: what is uncertain does not change, drawing stays cheap."""
_CHUNK_ELEMENTS = 2_000_000
_KEPT_ELEMENTS = 10_000_000


def resample_counts(clusters: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """Yield how often each cluster was drawn, in parts of shape (rows, clusters); each row sums to `clusters`."""
    if clusters * resamples <= _KEPT_ELEMENTS:
        yield _kept_counts(clusters, resamples, seed)
    else:
        yield from _draw(clusters, resamples, seed)


@lru_cache(maxsize=4)
def _kept_counts(clusters: int, resamples: int, seed: int) -> FloatArray:
    """All draws at once. A report needs the same ones for each of its figures, and drawing is most of the work."""
    counts = np.concatenate(list(_draw(clusters, resamples, seed)))
    counts.flags.writeable = False
    return counts


def _draw(clusters: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK_ELEMENTS // clusters)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(0, clusters, size=(size, clusters))
        drawn += np.arange(size)[:, None] * clusters
        yield np.bincount(drawn.ravel(), minlength=size * clusters).reshape(size, clusters).astype(np.float64)


def resample_sums(per_cluster: FloatArray, *, resamples: int = RESAMPLES, seed: int = SEED) -> FloatArray:
    """Sum the drawn clusters' rows: per_cluster (clusters, k) -> (resamples, k).

    More than MAX_CLUSTERS are put into that many groups at random first, sizes differing by one at most. Sums of
    random groups scatter as those of their members do, so that intervals keep their width.
    """
    if len(per_cluster) > MAX_CLUSTERS:
        group = np.random.default_rng([seed, 2]).permutation(len(per_cluster)) % MAX_CLUSTERS
        sums = [np.bincount(group, weights=column, minlength=MAX_CLUSTERS) for column in per_cluster.T]
        per_cluster = np.stack(sums, axis=1)
    parts = [counts @ per_cluster for counts in resample_counts(len(per_cluster), resamples, seed)]
    return np.concatenate(parts)


def cluster_interval(
    per_cluster: FloatArray,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> Interval | None:
    """Return the interval of a statistic of sums over clusters.

    Args:
        per_cluster: shape (clusters, k), what each prompt adds to each of k sums.
        statistic: maps sums of shape (resamples, k) to values of shape (resamples,).
        resamples: number of draws.
        seed: of the generator; the same seed gives the same interval.
        level: nominal coverage.

    Returns:
        None with fewer than MIN_PROMPTS clusters, or when the statistic is undefined for any draw.
    """
    if len(per_cluster) < MIN_PROMPTS:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        values = statistic(resample_sums(per_cluster, resamples=resamples, seed=seed))
    return percentile_interval(values, len(per_cluster), level)


def percentile_interval(values: FloatArray, clusters: int, level: float = LEVEL) -> Interval | None:
    """Return the expanded percentile interval of bootstrap values, or None where any is not finite.

    The plain percentile interval is too narrow for few clusters. Its tail probability is therefore widened to
    Phi(-sqrt(n / (n - 1)) * t), t being Student's quantile with n - 1 degrees of freedom
    (Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015).
    """
    if not np.isfinite(values).all():
        return None
    tail = expanded_tail(clusters, level)
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(lo=float(low), hi=float(high), prompts=clusters, level=level)


def cluster_quantile_interval(
    values: FloatArray,
    cluster: IntArray,
    q: float,
    *,
    resamples: int = QUANTILE_RESAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
) -> Interval | None:
    """Return the interval of the q-quantile (0 to 1, linear interpolation) of values drawn with their clusters.

    Args:
        values: shape (n,), one value a request.
        cluster: shape (n,), the cluster of each value, numbered from 0 without gaps.
        q: which quantile.
        resamples: number of draws.
        seed: of the generator.
        level: nominal coverage.

    Returns:
        None with fewer than MIN_PROMPTS clusters.
    """
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    if clusters < MIN_PROMPTS:
        return None
    if len(values) > MAX_QUANTILE_VALUES:
        return _large_quantile_interval(values, cluster, clusters, q, level)
    order = np.argsort(values, kind="stable")
    ranked, owner = values[order], cluster[order]
    rows = max(1, _CHUNK_ELEMENTS // len(values))
    found: list[FloatArray] = []
    for counts in resample_counts(clusters, resamples, seed):
        for start in range(0, len(counts), rows):
            cumulative = np.cumsum(counts[start : start + rows][:, owner], axis=1)
            found.append(_weighted_quantile(ranked, cumulative, q))
    return percentile_interval(np.concatenate(found), clusters, level)


def _large_quantile_interval(values: FloatArray, cluster: IntArray, clusters: int, q: float, level: float) -> Interval:
    """The interval of the share of values below the q-quantile, over clusters, turned into values.

    Woodruff, "Confidence Intervals for Medians and Other Position Measures", J. Amer. Statist. Assoc. 47, 1952.
    """
    below = (values <= np.quantile(values, q)) - q
    variance = clusters / (clusters - 1) * float((np.bincount(cluster, weights=below) ** 2).sum()) / len(values) ** 2
    away = student_quantile((1 + level) / 2, clusters - 1) * math.sqrt(variance)
    low, high = np.quantile(values, [max(q - away, 0.0), min(q + away, 1.0)])
    return Interval(lo=float(low), hi=float(high), prompts=clusters, level=level)


def _weighted_quantile(ranked: FloatArray, cumulative: FloatArray, q: float) -> FloatArray:
    """Quantile of each row's multiset, where `cumulative[r, i]` counts its members up to `ranked[i]`."""
    place = (cumulative[:, -1] - 1) * q
    below = np.floor(place)
    low = (cumulative <= below[:, None]).sum(axis=1)
    high = (cumulative <= np.ceil(place)[:, None]).sum(axis=1)
    found: FloatArray = ranked[low] + (ranked[high] - ranked[low]) * (place - below)
    return found


def expanded_tail(n: int, level: float = LEVEL) -> float:
    """Return the tail probability to cut on each side for n clusters (n >= 2)."""
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * student_quantile(1 - (1 - level) / 2, n - 1))


@lru_cache(maxsize=1024)
def student_quantile(p: float, df: int) -> float:
    """Student's t quantile for 0.5 <= p < 1 and whole degrees of freedom, by bisection to 1e-10."""
    if df > 1000:
        z = NormalDist().inv_cdf(p)
        return z + (z**3 + z) / (4 * df)
    low, high = 0.0, 1.0
    while student_cdf(high, df) < p:
        high *= 2
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def student_cdf(t: float, df: int) -> float:
    """Student's distribution function for t >= 0 (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(df))
    cos2 = math.cos(theta) ** 2
    odd = df % 2 == 1
    term = math.cos(theta) if odd else 1.0
    total = 0.0
    for k in range(1, (df - 1) // 2 + 1) if odd else range(1, df // 2 + 1):
        total += term
        term *= cos2 * (2 * k / (2 * k + 1) if odd else (2 * k - 1) / (2 * k))
    area = 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
    return 0.5 + area / 2
