"""How a long run tells what it is doing: a live bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.progress import TaskID


class Reporter(Protocol):
    """What the experiment needs: lines that stay, and a count of requests that are done."""

    def line(self, text: str) -> None:
        """Print a line that stays."""

    def begin(self, total_requests: int) -> None:
        """Say how many requests the whole run has left."""

    def request_done(self, label: str) -> None:
        """Count one request of the cell called `label`."""


class ConsoleReporter:
    """Reports on a rich console. Without a terminal it prints a line at most every `every_s` seconds."""

    def __init__(self, console: Console, *, every_s: float = 15.0) -> None:
        self._console = console
        self._every_s = every_s
        self._started = self._last = time.monotonic()
        self._total = self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def line(self, text: str) -> None:
        """Print a line that stays, with the seconds since the start."""
        stamp = f"[{time.monotonic() - self._started:6.1f} s] "
        self._console.print(stamp + text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, total_requests: int) -> None:
        """Say how many requests are left, in place of what was said before."""
        self._total, self._done = total_requests, 0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("requests", total=total_requests)

    def request_done(self, label: str) -> None:
        """Count one request."""
        self._done += 1
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, description=label)
        elif (now := time.monotonic()) - self._last >= self._every_s:
            self._last = now
            self.line(f"{label}: {self._done} of {self._total} requests done")
