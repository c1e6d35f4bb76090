"""Where more load stops paying: the knee of output tok/s over concurrency, and the most load within limits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.stats.model import Knee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.stats.model import Row

LEAST_LEVELS = 3
SHARE_OF_PEAK = 0.95
GOOD_SHARE = 0.99


def knee(arm: str, rows: Sequence[Row]) -> Knee | None:
    """Find an arm's knee over its concurrencies; None below three of them or where a throughput is missing.

    `concurrency` is the smallest one that reaches 95 % of the highest output tok/s seen. When that is the largest one
    measured, the highest may lie beyond: `bounded` is false. `within_limits` is the largest concurrency up to which,
    from the smallest on, at least 99 % of requests met the plan's limits (None: not even the smallest, or no limits).
    """
    levels = sorted((row for row in rows if row.arm == arm), key=lambda row: row.concurrency)
    rates = [row.output_tok_s.value for row in levels]
    known = [rate for rate in rates if rate is not None]
    if len(levels) < LEAST_LEVELS or len(known) < len(levels):
        return None
    peak = max(known)
    at = next(number for number, rate in enumerate(known) if rate >= SHARE_OF_PEAK * peak)
    within = None
    for row in levels:
        if row.goodput is None or (row.goodput.share.value or 0.0) < GOOD_SHARE:
            break
        within = row.concurrency
    return Knee(
        arm=arm,
        concurrency=levels[at].concurrency,
        bounded=at < len(levels) - 1,
        output_tok_s=known[at],
        peak_output_tok_s=peak,
        peak_concurrency=levels[known.index(peak)].concurrency,
        within_limits=within,
    )
