"""Keeping the client out of its own figures: no garbage collection while timing, and a watch on the event loop."""

from __future__ import annotations

import asyncio
import gc
from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from specdeck.load.wire import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect once, then keep the cyclic collector off; its state is restored afterwards."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class LagSampler:
    """Measures how late the event loop wakes a task: what a time stamp taken after scheduling may be off by."""

    def __init__(self, interval_s: float = 0.02) -> None:
        self._interval_s = interval_s
        self._late = array("d")
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def p99_ms(self) -> float | None:
        """99th percentile of the lateness in milliseconds; None before the first sample."""
        if not self._late:
            return None
        late = sorted(self._late)
        return late[min(len(late) - 1, int(len(late) * 0.99))] * 1000

    async def _watch(self) -> None:
        while True:
            due = clock() + self._interval_s
            await asyncio.sleep(self._interval_s)
            self._late.append(max(0.0, clock() - due))
