"""When an open loop sends: moments drawn before the clock starts, the same for the same seed. And when it really did.

Pure.
"""

from __future__ import annotations

import random
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.results.schema import RequestRecord


def arrivals(count: int, request_rate: float, burstiness: float = 1.0, seed: int = 0) -> tuple[float, ...]:
    """Seconds after the start at which requests are due; the first is due at 0.

    Gaps are gamma distributed with shape `burstiness` and mean 1 / `request_rate`, as in `vllm bench serve`:
    1 is a Poisson process, less is burstier, more is steadier, 1e6 as good as equal distances. The drawn gaps are
    scaled to their mean, so that the whole has exactly the rate that was asked for.

    Args:
        count: how many requests.
        request_rate: requests a second, above 0.
        burstiness: above 0.
        seed: of the generator.
    """
    if request_rate <= 0 or burstiness <= 0:
        raise ValueError("request_rate and burstiness are above 0")
    gaps = count - 1
    if gaps < 1:
        return (0.0,) * count
    draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    drawn = [draw.gammavariate(burstiness, 1.0) for _ in range(gaps)]
    total = sum(drawn) or 1.0
    scale = gaps / request_rate / total
    return (0.0, *accumulate(gap * scale for gap in drawn))


def queue_time_p99_ms(records: Iterable[RequestRecord]) -> float | None:
    """99th percentile of the time from due to sent, in milliseconds: what requests waited in the client."""
    waits = sorted(record.sent_s - record.scheduled_s for record in records if record.sent_s is not None)
    return 1000 * waits[min(len(waits) - 1, int(len(waits) * 0.99))] if waits else None


def sent_rate(records: Iterable[RequestRecord]) -> float | None:
    """Requests sent a second, from the first to the last; None for fewer than two."""
    sent = [record.sent_s for record in records if record.sent_s is not None]
    span = max(sent, default=0.0) - min(sent, default=0.0)
    return (len(sent) - 1) / span if span > 0 else None
