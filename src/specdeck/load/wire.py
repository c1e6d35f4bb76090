"""Connections to the server, on asyncio's transports: bytes are stamped in `data_received`, before anything else runs.

Only stamps and bytes are kept while an answer streams. docs/performance.md has the measurement that led here.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from specdeck.load.http1 import (
    HEAD_END,
    LAST_CHUNK,
    MAX_HEAD_BYTES,
    Head,
    Unchunker,
    WireError,
    is_done,
    parse_head,
    tail,
)
from specdeck.results.schema import RequestError

if TYPE_CHECKING:
    from specdeck.load.exchange import Exchange

MAX_RESPONSE_BYTES = 256 * 2**20
MAX_ERROR_BODY_BYTES = 2**16
DONE_GRACE_S = 1.0
"""How long the end of the response may come after `[DONE]`: the answer is complete, the connection may linger."""

clock = time.perf_counter


class Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, *, plain: bool) -> None:
        self._plain = plain
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._stamps: list[float] = []
        self._parts: list[bytes] = []
        self._streams = False
        self._size = 0
        self._incoming = b""
        self._unchunker = Unchunker()
        self._head: Head | None = None
        self._done: asyncio.Future[Head | None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self.idle_since = clock()

    @property
    def usable(self) -> bool:
        """Open, and nothing is under way on it."""
        return self._transport is not None and self._exchange is None and not self._transport.is_closing()

    def request(self, data: bytes, exchange: Exchange) -> asyncio.Future[Head | None]:
        """Send a request. The future ends with the response's head; what else came of it is in `exchange`.

        The first write goes to the socket directly: an event loop may queue it to the end of its iteration, and
        `exchange.sent` would be early by all that runs until then.

        Raises:
            OSError: the connection is gone.
        """
        transport = self._transport
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        self._exchange, self._stamps, self._parts = exchange, exchange.stamps, exchange.chunks
        self._head, self._incoming, self._size, self._streams = None, b"", 0, False
        self._unchunker = Unchunker()
        self._done = self._loop.create_future()
        try:
            written = 0
            if self._plain:
                with suppress(BlockingIOError):
                    written = os.write(transport.get_extra_info("socket").fileno(), data)
            if written < len(data):
                transport.write(data[written:])
        except OSError:
            self._exchange = None
            self.abort()
            raise
        exchange.sent = clock()
        return self._done

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._linger is not None:
            self._linger.cancel()
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Stamp and keep. Called by the event loop for each segment: the hot path."""
        now = clock()
        if self._streams:
            self._stamps.append(now)
            self._parts.append(data)
            self._size += len(data)
            if data.endswith(HEAD_END) or len(data) < 64 or b"[DONE]" in data or self._size > MAX_RESPONSE_BYTES:
                self._look(now)
        elif self._exchange is None:
            self.abort()
        elif self._head is None:
            self._read_head(data, now)
        else:
            self._stamps.append(now)
            self._parts.append(data)
            self._size += len(data)
            self._look(now)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        now = clock()
        self._transport = None
        exchange, head = self._exchange, self._head
        if exchange is None:
            return
        if head is None:
            self._fail(now, "stream", "the server closed the connection before it answered", exc)
        elif head.framing == "close" and exc is None:
            self._finish(now)
        elif self._linger is not None:
            self._finish(self._stamps[-1])
        else:
            self._fail(now, "stream", "the server closed the connection in the middle of its answer", exc)

    def _read_head(self, data: bytes, now: float) -> None:
        self._incoming += data
        head, blank, body = self._incoming.partition(HEAD_END)
        try:
            if not blank:
                if len(head) > MAX_HEAD_BYTES:
                    raise WireError("the response head is larger than 64 KiB")
                if len(head) >= 5 and not head.startswith(b"HTTP/"):
                    raise WireError(f"not an HTTP answer: it begins with {head[:60].decode('latin-1')!r}")
                return
            parsed = parse_head(head)
        except WireError as error:
            self._fail(now, "protocol", str(error))
            return
        self._incoming = b""
        if 100 <= parsed.status < 200:
            if body:
                self._read_head(body, now)
            return
        self._head = parsed
        # Most answers are streams of many segments; the others go the slow way, where every segment is looked at.
        self._streams = parsed.framing == "chunked" and parsed.status == 200
        if body or (parsed.framing == "length" and parsed.length == 0):
            self._stamps.append(now)
            self._parts.append(body)
            self._size = len(body)
            self._look(now)

    def _look(self, now: float) -> None:
        """Find out whether the answer is over, complete or not."""
        head = self._head
        assert head is not None
        if self._size > MAX_RESPONSE_BYTES:
            self._fail(now, "protocol", f"the answer is larger than {MAX_RESPONSE_BYTES >> 20} MiB")
        elif head.framing == "length" and self._size >= head.length:
            self._finish(now)
        end = tail(self._parts)
        done = is_done(end)
        if self._exchange is not None and head.framing == "chunked" and end.endswith(HEAD_END):
            try:
                # After [DONE] the mark of the last chunk is the end; elsewhere it could be part of an event.
                if (done and end.endswith(LAST_CHUNK)) or self._unchunked():
                    self._finish(now)
            except WireError as error:
                self._fail(now, "protocol", f"the chunked encoding is broken: {error}")
        if self._exchange is None:
            return
        if head.status != 200 and self._size > MAX_ERROR_BODY_BYTES:
            self._finish(now)
            self.abort()
        elif self._linger is None and done:
            self._linger = self._loop.call_later(DONE_GRACE_S, self._give_up_waiting, now)

    def _unchunked(self) -> bool:
        """Whether the framing says the body is complete. Each segment is read once."""
        reader = self._unchunker
        for part in self._parts[reader.fed :]:
            reader.feed(part)
        return reader.over

    def _give_up_waiting(self, end: float) -> None:
        self._finish(end)
        self.abort()

    def _fail(self, now: float, kind: str, message: str, cause: Exception | None = None) -> None:
        if self._exchange is not None:
            said = f"{message} ({type(cause).__name__}: {cause})" if cause is not None else message
            self._exchange.failure = RequestError(kind="protocol" if kind == "protocol" else "stream", message=said)
        self._finish(now)
        self.abort()

    def _finish(self, end: float) -> None:
        exchange, head, transport = self._exchange, self._head, self._transport
        self._exchange, self._streams, self.idle_since = None, False, end
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if exchange is not None:
            exchange.end = end
        if self._done is not None and not self._done.done():
            self._done.set_result(head)
        if transport is not None and (head is None or not head.keeps_alive or transport.get_write_buffer_size()):
            self.abort()
