"""specdeck's load generator as a process of its own, so that it is measured the way the others are."""

from __future__ import annotations

import json
import sys

import uvloop

from specdeck.load.client import Target
from specdeck.load.loop import run_load
from specdeck.load.prompts import Prompt
from specdeck.results.schema import Sampling


async def main(url: str, streams: int, requests: int, tokens: int) -> None:
    """Run a closed loop and print, by request id: scheduled, stamps of the chunks, and tokens of each."""
    prompts = [Prompt(id=f"p-{i}", category="c", prompt="x") for i in range(requests)]
    outcome = await run_load(
        Target(url, "loopback"),
        prompts,
        concurrency=streams,
        sampling=Sampling(temperature=0, max_tokens=tokens),
        request_timeout_s=300,
    )
    start = outcome.start
    told = {
        record.request_id: [start + record.scheduled_s, [start + s for s in record.chunk_s], record.chunk_tokens]
        for record in outcome.records
        if record.error is None
    }
    failed = sum(record.error is not None for record in outcome.records)
    json.dump({"requests": told, "failed": failed, "loop_lag_p99_ms": outcome.loop_lag_p99_ms}, sys.stdout)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
