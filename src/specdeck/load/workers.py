"""One load by several processes: each has its share of the requests, all start at one moment, their records are merged.

The clock is the machine's monotonic one, the same in every process, so that the records merge without a correction.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.conversation import turns_of
from specdeck.load.loop import LoadOutcome, mean_in_flight, salts_of
from specdeck.load.records import Records
from specdeck.load.wire import clock
from specdeck.results.schema import RequestRecord, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from specdeck.load.client import Target
    from specdeck.load.prompts import Prompt
    from specdeck.load.stages import Moment

STREAMS_PER_WORKER = 256
HEAD_START_S = 0.1
READY_TIMEOUT_S = 120.0
LINE_LIMIT = 2**20


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is told, through its standard input: the key never stands in a list of processes."""

    base_url: str
    model: str
    endpoint: Literal["chat", "completions"]
    api_key: str | None
    prompts: list[Any]
    moments: list[tuple[float, int | None, int | None]] | None
    salts: list[str | None]
    concurrency: int
    sampling: Sampling
    request_timeout_s: float
    ramp_up_s: float
    cell_timeout_s: float | None
    records: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one process says at its end."""

    loop_lag_p99_ms: float | None
    client_cpu_s: float


def worker_count(wanted: int | Literal["auto"], concurrency: int, cores: int | None = None) -> int:
    """How many processes: at most one a stream. `auto`: one for each 256 streams, leaving one core to the rest."""
    free = max(1, (cores or len(os.sched_getaffinity(0))) - 1)
    count = wanted if isinstance(wanted, int) else min(free, -(-concurrency // STREAMS_PER_WORKER))
    return max(1, min(count, concurrency))


async def run_workers(
    workers: int,
    target: Target,
    prompts: Sequence[Prompt],
    *,
    concurrency: int,
    sampling: Sampling,
    request_timeout_s: float,
    moments: Sequence[Moment] | None = None,
    ramp_up_s: float = 0.0,
    cell_timeout_s: float | None = None,
    cache_salt: str | None = None,
    salt_repeats: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> LoadOutcome:
    """As run_load, by `workers` processes; prompt i is the share of process i mod workers.

    Every process holds its part of `concurrency` by itself: near the end one may have nothing left while another has.
    Lag is the worst process's; CPU is the busiest one's, which is what reaches a core's limit.

    Raises:
        SpecdeckError: a process ended before its work, or did not begin.
    """
    salts = salts_of(prompts, cache_salt, salt_repeats=salt_repeats)
    _, conversations = turns_of(prompts)
    due = None if moments is None else [(moment.due_s, moment.stage, moment.max_tokens) for moment in moments]
    with tempfile.TemporaryDirectory(prefix="specdeck-") as folder:
        shares = [
            Share(
                base_url=target.base_url,
                model=target.model,
                endpoint=target.endpoint,
                api_key=target.api_key,
                prompts=[msgspec.to_builtins(prompt) for prompt in prompts[number::workers]],
                moments=None if due is None else due[number::workers],
                salts=salts[number::workers],
                concurrency=concurrency // workers + (number < concurrency % workers),
                sampling=sampling,
                request_timeout_s=request_timeout_s,
                ramp_up_s=ramp_up_s,
                cell_timeout_s=cell_timeout_s,
                records=str(Path(folder) / str(number)),
            )
            for number in range(workers)
        ]
        start, told = await _all(shares, on_progress)
        own = [[i for turns in conversations[number::workers] for i in turns] for number in range(workers)]
        streams = [_read(Path(share.records), indices) for share, indices in zip(shares, own, strict=True)]
        records = Records(heapq.merge(*streams, key=lambda record: record.index))
    duration = max((record.end_s for record in records), default=0.0)
    return LoadOutcome(
        records=records,
        start=start,
        duration_s=duration,
        loop_lag_p99_ms=max((one.loop_lag_p99_ms for one in told if one.loop_lag_p99_ms is not None), default=None),
        mean_in_flight=mean_in_flight(records, duration),
        client_cpu_s=max(one.client_cpu_s for one in told),
    )


async def _all(shares: Sequence[Share], on_progress: Callable[[str], None] | None) -> tuple[float, list[Told]]:
    processes: list[asyncio.subprocess.Process] = []
    try:
        for share in shares:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "specdeck.load.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
            )
            processes.append(process)
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(share) + b"\n")
        async with asyncio.timeout(READY_TIMEOUT_S):
            for process in processes:
                await _line(process, b"ready")
        start = clock() + HEAD_START_S
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"%a\n" % start)
        return start, list(await asyncio.gather(*(_follow(process, on_progress) for process in processes)))
    except TimeoutError as error:
        raise _ended("did not begin in time") from error
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _line(process: asyncio.subprocess.Process, wanted: bytes) -> None:
    assert process.stdout is not None
    if (await process.stdout.readline()).strip() != wanted:
        raise _ended(f"ended with status {await process.wait()} before it began")


async def _follow(process: asyncio.subprocess.Process, on_progress: Callable[[str], None] | None) -> Told:
    assert process.stdout is not None
    last = b""
    async for line in process.stdout:
        if line.startswith(b"done "):
            last = line
        elif on_progress is not None:
            on_progress(msgspec.json.decode(line, type=str))
    if not last or await process.wait():
        raise _ended(f"ended with status {await process.wait()} before its work")
    return msgspec.json.decode(last.removeprefix(b"done "), type=Told)


def _ended(what: str) -> SpecdeckError:
    return SpecdeckError(
        f"a process of the load generator {what}",
        where="--workers",
        fix="see whether the machine ran out of memory or processes, or measure with --workers 1",
    )


def _read(path: Path, indices: Sequence[int]) -> Iterator[RequestRecord]:
    decoder = msgspec.json.Decoder(RequestRecord)
    with path.open("rb") as file:
        for line, index in zip(file, indices, strict=True):
            yield msgspec.structs.replace(decoder.decode(line), index=index)
