"""Loads that change while they run: stages of constant or ramping rate, one after another, and traces to be replayed.

Pure but for `read_trace`. Every moment is known before the clock starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.arrivals import arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_REQUESTS = 1_000_000
MAX_TRACE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Stage:
    """A part of an open loop.

    Attributes:
        request_rate: requests a second at its start.
        to_request_rate: at its end; the rate changes linearly in between.
        burstiness: of the gaps, see arrivals.py.
        requests: how many are due in it.
    """

    request_rate: float
    to_request_rate: float
    burstiness: float
    requests: int

    @classmethod
    def of(
        cls,
        request_rate: float,
        to_request_rate: float | None = None,
        burstiness: float = 1.0,
        *,
        requests: int | None = None,
        duration_s: float | None = None,
    ) -> Stage:
        """Make a stage from one of its two budgets: requests, or seconds (rounded to whole requests, at least one)."""
        last = request_rate if to_request_rate is None else to_request_rate
        count = requests or max(1, round((duration_s or 0.0) * (request_rate + last) / 2))
        return cls(request_rate, last, burstiness, count)

    @property
    def duration_s(self) -> float:
        """Seconds until the next stage begins: requests divided by the mean rate."""
        return 2 * self.requests / (self.request_rate + self.to_request_rate)

    def due_s(self, seed: int) -> list[float]:
        """Moments from the stage's start on.

        Moments of a process of rate 1, put through the inverse of the rate's integral a·t + (b − a)·t² / 2T.
        """
        a, slope = self.request_rate, (self.to_request_rate - self.request_rate) / self.duration_s
        return [2 * u / (a + math.sqrt(max(0.0, a * a + 2 * slope * u))) for u in self._unit(seed)]

    def _unit(self, seed: int) -> tuple[float, ...]:
        return arrivals(self.requests, 1.0, self.burstiness, seed)


@dataclass(frozen=True)
class Moment:
    """When a request is due (seconds after the start), in which stage (from 1), with what output budget of its own."""

    due_s: float
    stage: int | None = None
    max_tokens: int | None = None


def staged(stages: Sequence[Stage], seed: int = 0) -> tuple[Moment, ...]:
    """Moments of all stages, each stage beginning where the last one's time is over. The same for the same seed."""
    moments: list[Moment] = []
    start = 0.0
    for number, stage in enumerate(stages, 1):
        moments += [Moment(start + due, number) for due in stage.due_s(seed * 1009 + number)]
        start += stage.duration_s
    return tuple(moments)


class _Line(msgspec.Struct, frozen=True):
    timestamp: float
    output_length: int | None = None


def read_trace(path: Path) -> tuple[Moment, ...]:
    """Read a trace: JSONL with `timestamp` in milliseconds and optionally `output_length`, a request's output budget.

    These are the keys of Mooncake's published traces; others are passed over, since the text comes from the prompt set.
    The first request is due at 0, whatever its time stamp.

    Raises:
        SpecdeckError: unreadable, empty, a line that is none, times that fall; with file and line.
    """
    try:
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise SpecdeckError("the trace is too large", where=str(path), fix="cut it: head -n 100000 TRACE > SHORT")
        data = path.read_bytes()
    except OSError as error:
        raise SpecdeckError(
            f"the trace cannot be read: {error.strerror}", where=str(path), fix=f"check that {path} is a file"
        ) from error
    decoder = msgspec.json.Decoder(_Line)
    lines: list[_Line] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        wrong = None
        try:
            found = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            wrong = str(error)
        else:
            if lines and found.timestamp < lines[-1].timestamp:
                wrong = f"timestamp {found.timestamp:g} is before the last one, {lines[-1].timestamp:g}"
            elif not math.isfinite(found.timestamp):
                wrong = "timestamp is not a number of milliseconds"
            elif found.output_length is not None and found.output_length < 1:
                wrong = f"output_length is {found.output_length}"
        if wrong:
            raise SpecdeckError(
                f"the line is no moment of a trace: {wrong}",
                where=f"{path}:{number}",
                fix='write {"timestamp": 1500, "output_length": 128}, times in milliseconds, ascending',
            )
        lines.append(found)
        if len(lines) > MAX_REQUESTS:
            raise SpecdeckError(
                f"the trace has more than {MAX_REQUESTS} requests",
                where=str(path),
                fix=f"cut it: head -n {MAX_REQUESTS} TRACE > SHORT",
            )
    if not lines:
        raise SpecdeckError("the trace is empty", where=str(path), fix="put at least one line in it")
    first = lines[0].timestamp
    return tuple(Moment((line.timestamp - first) / 1000, None, line.output_length) for line in lines)
