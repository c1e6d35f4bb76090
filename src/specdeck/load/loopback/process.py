"""The loopback server in a process of its own, so that it and the client do not wait for each other's interpreter."""

from __future__ import annotations

import http.client
import os
import selectors
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.loopback.server import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.load.loopback.shape import Shape

START_TIMEOUT_S = 30.0


class Loopback:
    """A running loopback server. Made by `running_loopback`."""

    def __init__(self, port: int, pid: int) -> None:
        self.port, self.pid = port, pid

    def url(self, shape: Shape) -> str:
        """Base URL whose streams look like `shape`."""
        return f"http://127.0.0.1:{self.port}/{shape.path}"

    def truths(self) -> dict[str, Truth]:
        """What really happened, by request id, since this was last asked; it is forgotten there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/truth")
            found = msgspec.json.decode(connection.getresponse().read(), type=list[Truth])
        finally:
            connection.close()
        return {truth.request_id: truth for truth in found}


@contextmanager
def running_loopback(*, core: int | None = None) -> Iterator[Loopback]:
    """Run a loopback server on a free port of 127.0.0.1; it ends with the context, and with this process.

    Args:
        core: pin it to this core.

    Raises:
        SpecdeckError: it does not start.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "specdeck.load.loopback.server"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if ready.select(START_TIMEOUT_S) else b""
        if not line.strip().isdigit():
            raise SpecdeckError(
                f"the loopback server did not start within {START_TIMEOUT_S:g} s (status {process.poll()})",
                fix=f"run {sys.executable} -m specdeck.load.loopback.server and read what it says",
            )
        yield Loopback(int(line), process.pid)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
