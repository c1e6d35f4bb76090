"""The server's own clock as a witness against the client's: times to first token, and how fast the client can be."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from specdeck.telemetry.counters import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import RequestRecord
    from specdeck.telemetry.counters import Snapshot

TTFT_MIN_MS = 50.0
TTFT_SHARE = 0.25
CAPACITY_SHARE = 0.7
CONCURRENCY_TOLERANCE = 0.1
MIN_SPAN_S = 1.0


def mean_ttft_ms(records: Sequence[RequestRecord]) -> float | None:
    """Mean time from sent to the first token, in milliseconds; None where a request failed or had no token."""
    times = [
        record.first_token_s - record.sent_s
        for record in records
        if record.error is None and record.first_token_s is not None and record.sent_s is not None
    ]
    return 1000 * statistics.fmean(times) if times and len(times) == len(records) else None


def server_mean_ttft_ms(before: Snapshot | None, after: Snapshot | None, requests: int) -> float | None:
    """Mean of what the server's histogram gained between two snapshots of one process, in milliseconds.

    None where it has none, or counted another number of requests than `requests`: the mean is of others then too.
    """
    if before is None or after is None or None in (after.ttft_count, after.ttft_sum_s):
        return None
    count = (after.ttft_count or 0) - (before.ttft_count or 0)
    total = (after.ttft_sum_s or 0.0) - (before.ttft_sum_s or 0.0)
    return 1000 * total / count if count == requests and count > 0 and total >= 0 else None


def ttft_gap(ours_ms: float | None, servers_ms: float | None) -> str | None:
    """What to tell where the two disagree by more than 50 ms and a quarter of the server's figure.

    The server counts from when it has read a request to when it has the token; the way there and back is ours alone.
    """
    if ours_ms is None or servers_ms is None:
        return None
    gap = ours_ms - servers_ms
    if abs(gap) <= max(TTFT_MIN_MS, TTFT_SHARE * servers_ms):
        return None
    if gap < 0:
        return (
            f"first tokens came after {ours_ms:.0f} ms here and after {servers_ms:.0f} ms by the server's own clock "
            "(means): the server counts what is not in our requests, or its clock is wrong"
        )
    return (
        f"first tokens came after {ours_ms:.0f} ms here and after {servers_ms:.0f} ms by the server's own clock "
        f"(means): {gap:.0f} ms went by on the way, in the server's front end, or in this client"
    )


def missing_witnesses(before: Snapshot | None, after: Snapshot | None) -> str | None:
    """What to tell where the server counts neither requests nor tokens under a name known here: a renamed series, say.

    None where there is no reading at all, which is told elsewhere.
    """
    if before is None or after is None:
        return None
    missing = [
        COUNTERS[field]
        for field in ("requests_success", "prompt_tokens", "generation_tokens")
        if getattr(after, field) is None
    ]
    return (
        f"the server has no {', '.join(missing)}: other traffic goes unseen as far as it would have told"
        if missing
        else None
    )


def undelivered_concurrency(records: Sequence[RequestRecord], asked: int | None) -> str | None:
    """What to tell where a closed loop held fewer requests in flight than asked for, while there still were some.

    Looked at from the first request sent to the moment the last was sent: what follows is the tail, in which fewer are
    in flight by design. None for fewer than two requests a slot or under a second, which tell nothing.
    """
    sent = [record for record in records if record.sent_s is not None]
    if asked is None or len(sent) < 2 * asked or len(sent) < len(records):
        return None
    begin = min(record.sent_s or 0.0 for record in sent)
    until = max(record.sent_s or 0.0 for record in sent)
    if until - begin < MIN_SPAN_S:
        return None
    held = sum(min(record.end_s, until) - (record.sent_s or 0.0) for record in sent) / (until - begin)
    if held >= asked * (1 - CONCURRENCY_TOLERANCE):
        return None
    return (
        f"{asked} requests in flight were asked for, {held:.3g} were while there were requests left: "
        "the client was late to send, or could not open connections"
    )


def near_capacity(records: Sequence[RequestRecord], duration_s: float | None, capacity: float | None) -> str | None:
    """What to tell where the load came near the chunks a second that the client reached in its self-test."""
    if not duration_s or not capacity:
        return None
    rate = sum(len(record.chunk_s) for record in records) / duration_s
    if rate <= CAPACITY_SHARE * capacity:
        return None
    return (
        f"{rate:.0f} chunks a second came in; on this machine the client itself reached {capacity:.0f} against a "
        "server that only sends: it may have been the limit"
    )
