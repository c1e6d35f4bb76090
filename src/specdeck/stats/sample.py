"""What a comparison needs of one arm at one concurrency: sums by prompt and round, nothing by request.

Small enough to commit: a baseline file keeps samples, so that tomorrow's run is paired with them prompt by prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.columns import Requests
from specdeck.stats.observations import observe
from specdeck.stats.throughput import completion_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import Cell, CounterDelta, RequestRecord
    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.observations import Observations

    Measured = Sequence[tuple[Cell, Sequence[RequestRecord]]]

COLUMNS = ("requests", "tokens", "e2e_s", "ttft_n", "ttft_log", "tpot_n", "tpot_log", "steps", "accepted")


@dataclass(frozen=True)
class Round:
    """One valid cell as a whole. `tokens` is None where an answer lacks usage."""

    round: int
    duration_s: float
    tokens: int | None
    requests: int
    failed: int
    counters: CounterDelta


@dataclass(frozen=True)
class Sample:
    """Answered requests of one arm at one concurrency, summed by prompt and round.

    Attributes:
        arm, concurrency: which cells.
        prompts: ids, sorted.
        rounds: the valid cells, by round.
        sums: column name to (prompts, rounds). `ttft_log` and `tpot_log` are sums of natural logarithms of seconds over
            `ttft_n` and `tpot_n` requests; NaN where a request lacks the value.
        accepted_at: (prompts, rounds, positions), drafts whose position was accepted; NaN without payloads.
    """

    arm: str
    concurrency: int
    prompts: tuple[str, ...]
    rounds: tuple[Round, ...]
    sums: dict[str, FloatArray]
    accepted_at: FloatArray


def samples(cells: Measured) -> dict[tuple[str, int], Sample]:
    """Sum the valid cells of a run, by (arm, concurrency), in the order they were given."""
    grouped: dict[tuple[str, int], list[tuple[Cell, Requests]]] = {}
    for cell, records in cells:
        if cell.status == "ok":
            grouped.setdefault((cell.arm, cell.concurrency), []).append((cell, Requests.of(cell, records)))
    return {
        key: _sample(key, sorted(measured, key=lambda item: item[0].round), observe(measured))
        for key, measured in grouped.items()
    }


def _sample(key: tuple[str, int], measured: Sequence[tuple[Cell, Requests]], seen: Observations) -> Sample:
    rounds = tuple(
        Round(
            round=cell.round,
            duration_s=cell.duration_s,
            tokens=completion_tokens(requests.columns.seen),
            requests=len(requests) - requests.columns.failed,
            failed=requests.columns.failed,
            counters=cell.counters,
        )
        for cell, requests in measured
    )
    place = {item.round: i for i, item in enumerate(rounds)}
    shape = (len(seen.prompts), len(rounds))
    table = np.array([place.get(number, 0) for number in range(max(place, default=0) + 1)], dtype=np.int64)
    where = seen.prompt * len(rounds) + table[seen.round]

    def add(column: FloatArray) -> FloatArray:
        found: FloatArray = np.bincount(where, weights=column, minlength=shape[0] * shape[1]).astype(np.float64)
        return found.reshape(shape)

    ttft_n, ttft_log = _logs(seen.ttft_s)
    tpot_n, tpot_log = _logs(seen.tpot_s)
    columns = (
        np.ones(len(seen)), seen.tokens, seen.e2e_s, ttft_n, ttft_log, tpot_n, tpot_log, seen.steps, seen.accepted,
    )  # fmt: skip
    positions = [add(column) for column in seen.accepted_at.T]
    return Sample(
        arm=key[0],
        concurrency=key[1],
        prompts=seen.prompts,
        rounds=rounds,
        sums={name: add(column) for name, column in zip(COLUMNS, columns, strict=True)},
        accepted_at=np.stack(positions, axis=2) if positions else np.zeros((*shape, 0)),
    )


def _logs(times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Which times are there, and their logarithms with 0 for those that are not."""
    there = times > 0
    return there.astype(np.float64), np.log(np.where(there, times, 1.0))
