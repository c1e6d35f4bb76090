"""Whether a server outlived a measurement. One answer, whatever noticed its end first: its requests or its process."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from specdeck.engine.http import Http, Unreachable

if TYPE_CHECKING:
    from specdeck.run.cell import Measured
    from specdeck.run.servers import Served

HEALTH_TIMEOUT_S = 15.0
_STATUS_WAIT_S = 5.0
_POLL_S = 0.05


async def how_it_ended(served: Served, measured: Measured) -> str | None:
    """Say how the server of a measured cell ended; None while it lives.

    A broken connection arrives before the process can be reaped, so the exit status alone would sometimes say that a
    dead server lives. Where a request failed or the counters were lost, the server is therefore asked for /health too.
    """
    status = served.server.exit_status()
    if status is not None:
        return f"the server ended (status {status})"
    lost_counters = bool(measured.before_text) and not measured.after_text
    if not lost_counters and all(record.error is None for record in measured.records):
        return None
    problem = await _unhealthy(served)
    status = await _status_of(served) if problem else served.server.exit_status()
    if status is not None:
        return f"the server ended (status {status})"
    return problem


async def _unhealthy(served: Served) -> str | None:
    async with Http(served.target.base_url, served.target.api_key) as http:
        try:
            answer = await http.get("/health", timeout_s=HEALTH_TIMEOUT_S)
        except Unreachable as error:
            return f"the server no longer answers ({error})"
    # vLLM says 503 when its engine process is dead; other servers have no /health and say 404.
    return f"the server says it is dead ({answer.described})" if answer.status >= 500 else None


async def _status_of(served: Served) -> int | None:
    """Wait a moment for the exit status: only the message gets better by it, never the verdict."""
    deadline = time.monotonic() + _STATUS_WAIT_S
    while (status := served.server.exit_status()) is None and time.monotonic() < deadline:
        if served.server.pid is None:  # attached: there will be no status
            return None
        await asyncio.sleep(_POLL_S)
    return status
