"""One process of a load (see workers.py): share from standard input, progress to standard output, records to a file."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import uvloop

from specdeck.load.client import Target
from specdeck.load.loop import LoadOutcome, run_load
from specdeck.load.prompts import Prompt
from specdeck.load.stages import Moment
from specdeck.load.workers import Share, Told


async def work(share: Share) -> LoadOutcome:
    """Send the share from the moment that the parent names."""

    async def start() -> float:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        return float(await asyncio.to_thread(sys.stdin.readline))

    def progress(prompt_id: str) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(prompt_id) + b"\n")
        sys.stdout.buffer.flush()

    return await run_load(
        Target(share.base_url, share.model, share.endpoint, share.api_key),
        msgspec.convert(share.prompts, list[Prompt]),
        concurrency=share.concurrency,
        sampling=share.sampling,
        request_timeout_s=share.request_timeout_s,
        moments=None if share.moments is None else [Moment(*moment) for moment in share.moments],
        ramp_up_s=share.ramp_up_s,
        cell_timeout_s=share.cell_timeout_s,
        salts=share.salts,
        start_when=start,
        on_progress=progress,
    )


def main() -> None:
    """Run one share and write its records."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group; the parent ends this one
    share = msgspec.json.decode(sys.stdin.readline(), type=Share)
    load = uvloop.run(work(share))
    with Path(share.records).open("wb") as file:
        file.writelines(msgspec.json.encode(record) + b"\n" for record in load.records)
    told = Told(loop_lag_p99_ms=load.loop_lag_p99_ms, client_cpu_s=load.client_cpu_s)
    sys.stdout.buffer.write(b"done " + msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
