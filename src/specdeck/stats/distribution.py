"""How times are distributed over requests, as quantiles that a picture can draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.model import Distribution

if TYPE_CHECKING:
    from specdeck.stats.bootstrap import FloatArray

STEPS = 50
"""Quantiles 0, 1/STEPS, … 1."""


def distribution(arm: str, concurrency: int, metric: str, values: FloatArray) -> Distribution | None:
    """Return the quantiles of the available values, linear interpolation between ranks; None without any.

    Args:
        arm: whose requests.
        concurrency: at which they were measured.
        metric: what the values are, with its unit: `ttft_s`, `tpot_s`.
        values: shape (n,), NaN where not available.
    """
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return None
    found = np.percentile(known, np.linspace(0, 100, STEPS + 1), method="linear")
    return Distribution(
        arm=arm, concurrency=concurrency, metric=metric, n=len(known), quantiles=tuple(float(x) for x in found)
    )
