"""The usual way: aiohttp on uvloop, a task a stream, stamped where the task reads. What specdeck's reader replaced."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

import aiohttp
import uvloop
from floor import stamps_of


async def main(url: str, streams: int, requests: int, tokens: int) -> None:
    """Run a closed loop and print, by request id: scheduled, and the stamp of every chunk."""
    clock = time.perf_counter
    told: dict[str, tuple[float, list[tuple[float, bytes]]]] = {}
    body = json.dumps({"model": "loopback", "stream": True, "max_tokens": tokens}).encode()
    names = iter([f"plain-{i}" for i in range(requests)])

    async def slot(session: aiohttp.ClientSession) -> None:
        scheduled = start
        for name in names:
            parts: list[tuple[float, bytes]] = []
            told[name] = (scheduled, parts)
            async with session.post(f"{url}/v1/chat/completions", data=body, headers={"X-Request-Id": name}) as answer:
                while part := await answer.content.readany():
                    parts.append((clock(), part))
            scheduled = clock()

    connector = aiohttp.TCPConnector(limit=streams)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        gc.disable()
        start = clock()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(streams, requests)):
                group.create_task(slot(session))
    json.dump({name: [begun, stamps_of(parts)] for name, (begun, parts) in told.items()}, sys.stdout)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
