"""Waiting until a server does nothing and its counters stand still, so that two readings bracket our requests only."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.telemetry.counters import Snapshot
from specdeck.telemetry.scrape import scrape

if TYPE_CHECKING:
    from specdeck.load.client import Target

IDLE_TIMEOUT_S = 30.0
INTERVAL_S = 0.2


@dataclass(frozen=True)
class Settled:
    """The last reading of a wait.

    Attributes:
        text: the whole exposition; None where /metrics could not be fetched.
        snapshot: the text, read; None where it could not be fetched or is damaged.
        idle: nothing ran or waited, and no counter moved, in two successive readings.
        reason: why not idle, or why there is no snapshot.
    """

    text: str | None
    snapshot: Snapshot | None
    idle: bool
    reason: str = ""


async def wait_idle(target: Target, *, timeout_s: float = IDLE_TIMEOUT_S, interval_s: float = INTERVAL_S) -> Settled:
    """Read /metrics until two successive readings show an idle server, for at most about `timeout_s`.

    Counters are flushed a moment after a stream has ended, hence the comparison of two readings. Errors are returned,
    not raised: whether a cell without counters is of use is the caller's to judge.
    """
    deadline = time.monotonic() + timeout_s
    last: Settled | None = None
    while True:
        now = await read_metrics(target, timeout_s=max(5.0, min(20.0, timeout_s)))
        if last is not None:
            now = _compare(last, now)
            if now.idle:
                return now
        if time.monotonic() >= deadline or (now.snapshot is None and now.text is not None):
            return now
        if now.text is None and last is not None and last.text is None:
            return now
        last = now
        await asyncio.sleep(interval_s)


async def read_metrics(target: Target, *, timeout_s: float = 20.0) -> Settled:
    """Read /metrics once; `idle` is not judged."""
    try:
        text = await scrape(target.root_url, headers=target.auth_headers, timeout_s=timeout_s)
    except SpecdeckError as error:
        return Settled(None, None, idle=False, reason=f"{error.what} ({error.where})")
    try:
        snapshot = Snapshot.parse(text, target.model, where=f"{target.root_url}/metrics")
    except SpecdeckError as error:
        return Settled(text, None, idle=False, reason=f"{error.what} ({error.where})")
    return Settled(text, snapshot, idle=False)


def _compare(before: Settled, now: Settled) -> Settled:
    if before.snapshot is None or now.snapshot is None:
        return now
    busy = [
        f"{count} {state}"
        for state, count in (("running", now.snapshot.running), ("waiting", now.snapshot.waiting))
        if count
    ]
    if busy:
        return Settled(now.text, now.snapshot, idle=False, reason=f"requests: {', '.join(busy)}")
    if before.snapshot.running or before.snapshot.waiting or before.snapshot.counts() != now.snapshot.counts():
        return Settled(now.text, now.snapshot, idle=False, reason="counters still move")
    return Settled(now.text, now.snapshot, idle=True)
