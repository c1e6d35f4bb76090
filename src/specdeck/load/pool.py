"""The connections of one load: opened before its clock starts, used again, never one that the server may be closing."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

import specdeck
from specdeck.errors import SpecdeckError
from specdeck.load.wire import Connection, clock

if TYPE_CHECKING:
    from types import TracebackType

    from specdeck.load.client import Target

CONNECT_TIMEOUT_S = 30.0
WARM_TIMEOUT_S = 10.0
OPEN_AT_ONCE = 64
MAX_IDLE_S = 3.0
"""vLLM's HTTP server closes a connection after 5 s of silence; one that idle is not trusted with a request."""
SPARE_FILES = 64


class Pool:
    """An async context manager; leaving it closes every connection.

    Raises:
        SpecdeckError: the URL or the key cannot be sent, or the system allows fewer open files than `connections`.
    """

    def __init__(self, target: Target, connections: int) -> None:
        parts = urlsplit(target.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise SpecdeckError(
                f"not an http or https URL: {target.root_url}", fix="give a base URL such as http://127.0.0.1:8000"
            )
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._connections = connections
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        host = f"[{self._host}]" if ":" in self._host else self._host
        headers = {
            "Host": host if parts.port is None else f"{host}:{parts.port}",
            "User-Agent": f"specdeck/{specdeck.__version__}",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if parts.username:
            word = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(word.encode()).decode()}"
        headers.update(target.auth_headers)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if any(not line.isascii() or not line.isprintable() for line in lines):
            raise SpecdeckError(
                "the URL or the API key has a character that cannot stand in a request (a line break, say)",
                where=target.root_url,
                fix="set the key again without the line break: export SPECDECK_API_KEY=…",
            )
        self._head = "\r\n".join(lines)

    def encode(self, body: bytes, request_id: str) -> bytes:
        """The whole request as it goes over the wire."""
        return f"{self._head}\r\nX-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def acquire(self) -> Connection:
        """A connection nothing is under way on; the caller gives it back with `release`.

        Raises:
            OSError: no connection (refused, unknown host, TLS).
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and clock() - connection.idle_since < MAX_IDLE_S:
                return connection
            connection.abort()
            self._all.discard(connection)
        return await self._open()

    def release(self, connection: Connection) -> None:
        """Take a connection back."""
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.abort()
            self._all.discard(connection)

    async def _open(self) -> Connection:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(plain=self._ssl is None), self._host, self._port, ssl=self._ssl
            )
        self._all.add(connection)
        return connection

    async def _warm(self, gate: asyncio.Semaphore) -> None:
        """Open one connection ahead. That it fails is no matter: the load will tell."""
        with suppress(OSError, TimeoutError):
            async with gate, asyncio.timeout(WARM_TIMEOUT_S):
                self.release(await self._open())

    async def __aenter__(self) -> Self:
        _allow_open_files(self._connections + SPARE_FILES)
        gate = asyncio.Semaphore(OPEN_AT_ONCE)
        await asyncio.gather(*(self._warm(gate) for _ in range(self._connections)))
        now = clock()
        for connection in self._idle:
            connection.idle_since = now
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        for connection in self._all:
            connection.abort()
        self._all.clear()
        self._idle.clear()
        await asyncio.sleep(0)


def _allow_open_files(count: int) -> None:
    """Raise this process's own limit of open files as far as the system lets it."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count or soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SpecdeckError(
            f"{count} open files are needed, and the system allows {hard}",
            fix=f"raise the limit (ulimit -Hn {count}) or measure at a lower concurrency",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
