"""One request on the wire. While it runs, only time stamps and bytes are kept; nothing is parsed.

What the bytes mean is worked out afterwards (stream.py, record.py), when nothing is being timed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import orjson

from specdeck.load.http1 import Unchunker, WireError
from specdeck.load.redact import one_line, redact
from specdeck.load.wire import MAX_ERROR_BODY_BYTES, clock
from specdeck.results.schema import RequestError

if TYPE_CHECKING:
    from specdeck.load.http1 import Head
    from specdeck.load.pool import Pool
    from specdeck.load.wire import Connection

DONE = b"[DONE]"


@dataclass(slots=True)
class Exchange:
    """Everything one request left behind, unparsed. Times are of `clock`.

    Segment `chunks[i]` arrived at `stamps[i]`, with HTTP's framing in it where the body is `chunked`.
    """

    request_id: str
    index: int
    scheduled: float
    sent: float | None = None
    end: float = 0.0
    stamps: list[float] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    chunked: bool = False
    failure: RequestError | None = None
    stage: int | None = None

    def payloads(self) -> list[bytes]:
        """The body's bytes of each segment, chunked framing taken off; what comes after broken framing is left out."""
        if not self.chunked:
            return self.chunks
        reader = Unchunker()
        payloads: list[bytes] = []
        with suppress(WireError):
            payloads.extend(map(reader.feed, self.chunks))
        return payloads


async def perform(
    pool: Pool, request: bytes, exchange: Exchange, *, timeout_s: float, api_key: str | None = None
) -> None:
    """Send one request and fill `exchange`. Every failure ends up in `exchange.failure`; only cancellation is raised.

    `exchange.end` is set on every way out. Nothing is retried.

    Args:
        pool: where its connection comes from.
        request: the encoded request (`Pool.encode`).
        exchange: filled as bytes come.
        timeout_s: limit from asking for a connection to the last byte.
        api_key: kept out of error messages.
    """
    connection: Connection | None = None
    head: Head | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await pool.acquire()
            head = await connection.request(request, exchange)
    except TimeoutError:
        exchange.failure = RequestError(kind="timeout", message=f"no complete answer within {timeout_s:g} s")
    except OSError as error:
        exchange.failure = RequestError(kind="connect", message=_describe(error))
    finally:
        if connection is not None:
            if not exchange.end:
                connection.abort()
            pool.release(connection)
        exchange.end = exchange.end or clock()
    if head is not None:
        exchange.chunked = head.framing == "chunked"
        if exchange.failure is None:
            exchange.failure = _refusal(head, exchange)
    if exchange.failure is not None:
        exchange.failure = msgspec.structs.replace(
            exchange.failure, message=one_line(redact(exchange.failure.message, api_key), 400)
        )


def _refusal(head: Head, exchange: Exchange) -> RequestError | None:
    """What is wrong with an answer that is no event stream; it has no times then. None for an event stream."""
    streamed = head.status == 200 and head.content_type == "text/event-stream"
    encoding = head.headers.get("content-encoding", "identity").lower()
    if streamed and encoding in {"", "identity"}:
        return None
    body = b"".join(exchange.payloads())[:MAX_ERROR_BODY_BYTES]
    exchange.stamps.clear()
    exchange.chunks.clear()
    if streamed:
        return RequestError(kind="protocol", message=f"the answer is {encoding}, which was not asked for", status=200)
    said = error_text(body)
    if head.status != 200:
        after = "".join(
            f" ({name.title()}: {head.headers[name]})" for name in ("retry-after", "location") if name in head.headers
        )
        return RequestError(kind="http", message=f"{head.status} {head.reason}{after}: {said}", status=head.status)
    shown = head.content_type or "something without a content type"
    return RequestError(kind="protocol", message=f"answered {shown} instead of an event stream: {said}", status=200)


def error_text(body: bytes) -> str:
    """What an error body says: the message of an OpenAI-style or FastAPI error, else its text in one line."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return one_line(body.decode("utf-8", "replace")) or "(empty body)"
    if isinstance(value, dict):
        inner = value.get("error", value)
        if isinstance(inner, str):
            return one_line(inner)
        if isinstance(inner, dict):
            for key in ("message", "detail"):
                if isinstance(inner.get(key), str):
                    return one_line(inner[key])
    return one_line(body.decode("utf-8", "replace"))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
