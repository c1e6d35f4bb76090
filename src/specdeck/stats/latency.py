"""Medians and 99th percentiles of times, over answered requests, by linear interpolation between ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.bootstrap import cluster_quantile_interval
from specdeck.stats.model import Quantiles

if TYPE_CHECKING:
    from specdeck.stats.bootstrap import FloatArray, IntArray

FEW = 100
"""Below this many values the 99th percentile lies between the two largest."""


def quantiles(values: FloatArray, cluster: IntArray | None = None) -> Quantiles:
    """Return p50 and p99 of the available values; NaN entries are left out.

    Args:
        values: shape (n,), seconds (or any unit).
        cluster: shape (n,), the prompt of each value. Given, the median gets an interval over prompts.
    """
    keep = ~np.isnan(values)
    known = values[keep]
    if len(known) == 0:
        return Quantiles(n=0)
    p50, p99 = np.percentile(known, [50, 99], method="linear")
    interval = None
    if cluster is not None:
        _, owner = np.unique(cluster[keep], return_inverse=True)
        interval = cluster_quantile_interval(known, owner.astype(np.int64), 0.5)
    return Quantiles(n=len(known), p50=float(p50), p50_interval=interval, p99=float(p99), p99_near_max=len(known) < FEW)


def rates(times: FloatArray) -> FloatArray:
    """Tokens a second from seconds a token; NaN where the time is missing or 0."""
    with np.errstate(divide="ignore"):
        rate = 1 / times
    return np.where(np.isfinite(rate), rate, np.nan)
