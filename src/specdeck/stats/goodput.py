"""Requests that met the limits a plan sets on their times, as a rate and as a share of all requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.stats.bootstrap import cluster_interval
from specdeck.stats.model import Estimate, Goodput
from specdeck.stats.observations import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.results.schema import Cell, RequestRecord
    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.observations import Observations

LIMITS = ("ttft", "tpot", "e2el")


def limits_of(plan: Mapping[str, Any]) -> dict[str, float]:
    """Limits that a run's plan sets, in milliseconds; empty where it sets none."""
    found = plan.get("goodput") or {}
    return {key: float(found[key]) for key in LIMITS if found.get(key) is not None}


def meets(seen: Observations, limits: Mapping[str, float]) -> FloatArray:
    """1 for each answered request that met every limit, else 0: shape (n,).

    A request of one token has no time per output token and meets that limit, as in `vllm bench serve`; a time that is
    missing otherwise (no token counts, no token) meets none.
    """
    good = np.ones(len(seen), dtype=bool)
    for key, limit in limits.items():
        times = {"ttft": seen.ttft_s, "tpot": seen.tpot_s, "e2el": seen.e2e_s}[key]
        with np.errstate(invalid="ignore"):
            met = 1000 * times <= limit
        good &= met | (seen.tokens == 1) if key == "tpot" else met
    return good.astype(np.float64)


def goodput(cells: Sequence[tuple[Cell, Sequence[RequestRecord]]], limits: Mapping[str, float]) -> Goodput | None:
    """Good requests of cells; None without limits. A failed request is a request that was not good."""
    if not limits:
        return None
    seen = observe(cells)
    good = meets(seen, limits)
    sent = sum(len(records) for _, records in cells)
    duration = sum(cell.duration_s for cell, _ in cells)
    interval = None
    if sent == len(seen):
        interval = cluster_interval(seen.per_prompt(good, np.ones(len(seen))), lambda sums: sums[:, 0] / sums[:, 1])
    count = int(good.sum())
    return Goodput(
        good=count,
        requests=sent,
        share=Estimate(value=count / sent, interval=interval) if sent else Estimate(),
        req_s=count / duration if duration > 0 else None,
    )
