"""Serves one arm in the foreground: the log on the terminal, a line when it is proved, everything gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import TYPE_CHECKING, Any

from specdeck.engine.logs import LogReader, advice, first_error
from specdeck.engine.readiness import prove_ready
from specdeck.errors import EXIT_FAILED, EXIT_OK, EXIT_UNMEASURABLE, SpecdeckError
from specdeck.rules.symptoms import known_trap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from specdeck.engine.claims import Expectation
    from specdeck.engine.runtime import Server

_FOLLOW_S = 0.2


async def serve_foreground(
    start: Callable[[], Awaitable[Server]],
    expectation: Expectation,
    *,
    timeout_s: float,
    say: Callable[[str], None],
    detach: Callable[[Server], Awaitable[str]] | None = None,
) -> int:
    """Serve until a signal comes (SIGINT, SIGTERM, SIGHUP) or the server ends.

    Args:
        start: starts the server.
        expectation: what it must prove.
        timeout_s: for the proof.
        say: prints lines.
        detach: called once it is ready, and then nobody waits for its end; returns how to stop it.

    Returns:
        The exit status: 0 when stopped after it was ready, 2 when stopped before.

    Raises:
        SpecdeckError: it could not start, was not what it claims, or ended by itself (exit code 1).
    """
    asked = asyncio.Event()
    server: Server | None = None

    def stop() -> None:
        if asked.is_set() and server is not None:
            hurry.append(asyncio.ensure_future(server.stop(now=True)))
        asked.set()

    hurry: list[asyncio.Future[None]] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    server = await start()
    log = _Log(server, say)
    follower = asyncio.create_task(log.follow())
    try:
        return await _serve(server, expectation, asked, timeout_s, log, detach)
    finally:
        try:
            await server.stop()
            await asyncio.gather(*hurry)
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower
            log.copy()


async def _serve(
    server: Server,
    expectation: Expectation,
    asked: asyncio.Event,
    timeout_s: float,
    log: _Log,
    detach: Callable[[Server], Awaitable[str]] | None,
) -> int:
    stopping = asyncio.create_task(asked.wait())
    ready = asyncio.create_task(
        # The log itself is on the terminal: its lines need no repeating as progress.
        prove_ready(server, expectation, timeout_s=timeout_s, progress=lambda _text: None)
    )
    try:
        await asyncio.wait({stopping, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            log.say("specdeck: stopped before the server was ready")
            return EXIT_UNMEASURABLE
        proof = ready.result()
        stop = await detach(server) if detach else "Ctrl-C"
        log.say(announcement(expectation.arm, proof, key=server.api_key is not None, stop=stop))
        if detach:
            return EXIT_OK
        while not stopping.done():
            await asyncio.wait({stopping}, timeout=_FOLLOW_S)
            status = server.exit_status()
            if status is not None and not stopping.done():
                raise _ended(server, status)
        log.say("specdeck: stopping the server")
        return EXIT_OK
    finally:
        for task in (stopping, ready):
            task.cancel()
        await asyncio.gather(stopping, ready, return_exceptions=True)


def announcement(arm: str, proof: dict[str, Any], *, key: bool, stop: str) -> str:
    """Return the lines that say that an arm is ready and how to use it."""
    drafter = f", {proof['drafter_architecture']}" if proof["drafter_architecture"] else ""
    n = proof["num_speculative_tokens"]
    url = f"{proof['base_url']}/v1"
    body = json.dumps({"model": proof["model"], "messages": [{"role": "user", "content": "Hello"}]})
    headers = "-H 'Content-Type: application/json'" + (' -H "Authorization: Bearer $VLLM_API_KEY"' if key else "")
    return "\n".join(
        [
            f"specdeck: ready after {proof['ready_s']:.0f} s, and it is arm {arm}"
            + (f" ({n} draft tokens a step{drafter})" if n else " (no drafter)"),
            f"  URL    {url}",
            f"  model  {proof['model']}",
            f"  try    curl {url}/chat/completions {headers} -d '{body}'",
            f"  stop   {stop}",
        ]
    )


class _Log:
    """The terminal: a copy of the server's log as it grows, and our own lines in their right place between."""

    def __init__(self, server: Server, say: Callable[[str], None]) -> None:
        self._reader = LogReader(server.log_path)
        self._say = say

    async def follow(self) -> None:
        while True:
            self.copy()
            await asyncio.sleep(_FOLLOW_S)

    def copy(self) -> None:
        for line in self._reader.new():
            self._say(line)

    def say(self, text: str) -> None:
        self.copy()
        self._say(text)


def _ended(server: Server, status: int) -> SpecdeckError:
    reader = LogReader(server.log_path)
    reader.new()
    cause = first_error(reader.all_lines())
    how = f"was ended by signal {-status}" if status < 0 else f"ended by itself with exit status {status}"
    return SpecdeckError(
        f"the server {how}" + (f"\n  first error: {cause}{known_trap(cause)}" if cause else ""),
        where=str(server.log_path),
        fix=advice(cause, status) or f"read the log: less {server.log_path}",
        exit_code=EXIT_FAILED,
    )
