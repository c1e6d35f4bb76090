"""One request on the wire. While it runs, only time stamps and bytes are kept; nothing is parsed.

What the bytes mean is worked out afterwards (stream.py, record.py), when nothing is being timed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import aiohttp
import orjson

from specdeck.load.redact import one_line, redact
from specdeck.results.schema import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RESPONSE_BYTES = 256 * 2**20
MAX_ERROR_BODY_BYTES = 2**16
DONE = b"[DONE]"
DONE_GRACE_S = 1.0
"""How long the end of the response may come after `[DONE]`: the answer is complete, the connection may linger."""

clock = time.perf_counter


@dataclass(slots=True)
class Exchange:
    """Everything one request left behind, unparsed. Times are of `clock`; `chunks[i]` arrived at `stamps[i]`."""

    request_id: str
    index: int
    scheduled: float
    sent: float | None = None
    end: float = 0.0
    stamps: list[float] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    failure: RequestError | None = None

    def mark_sent(self) -> None:
        """Stamp the moment the request went out."""
        self.sent = clock()


async def perform(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    exchange: Exchange,
    *,
    timeout_s: float,
    headers: Mapping[str, str],
    api_key: str | None = None,
) -> None:
    """Send one request and fill `exchange`. Every failure ends up in `exchange.failure`; only cancellation is raised.

    `exchange.end` is set on every way out. Nothing is retried.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await _stream(session, url, body, exchange, headers)
    except TimeoutError:
        exchange.failure = RequestError(kind="timeout", message=f"no complete answer within {timeout_s:g} s")
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        exchange.failure = RequestError(kind="connect", message=_describe(error))
    except (aiohttp.ClientError, OSError) as error:
        kind: Literal["connect", "stream"] = "connect" if exchange.sent is None else "stream"
        exchange.failure = RequestError(kind=kind, message=_describe(error))
    finally:
        exchange.end = clock()
    if exchange.failure is not None:
        message = one_line(redact(exchange.failure.message, api_key), 400)
        exchange.failure = RequestError(kind=exchange.failure.kind, message=message, status=exchange.failure.status)


async def _stream(
    session: aiohttp.ClientSession, url: str, body: bytes, exchange: Exchange, headers: Mapping[str, str]
) -> None:
    all_headers = {**headers, "Content-Type": "application/json", "X-Request-Id": exchange.request_id}
    async with session.post(url, data=body, headers=all_headers, trace_request_ctx=exchange) as response:
        if response.status != 200 or response.content_type != "text/event-stream":
            exchange.failure = await _refusal(response)
            return
        read, stamp, keep = response.content.readany, exchange.stamps.append, exchange.chunks.append
        size = 0
        while chunk := await read():
            stamp(clock())
            keep(chunk)
            size += len(chunk)
            if DONE in chunk[-16:]:
                await _drain(response)
                return
            if size > MAX_RESPONSE_BYTES:
                exchange.failure = RequestError(
                    kind="protocol", message=f"the answer is larger than {MAX_RESPONSE_BYTES >> 20} MiB"
                )
                return


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read to the end so that the connection can be used again; give up on one that lingers."""
    try:
        async with asyncio.timeout(DONE_GRACE_S):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError, OSError):
        response.close()


async def _refusal(response: aiohttp.ClientResponse) -> RequestError:
    body = b""
    while len(body) < MAX_ERROR_BODY_BYTES and (chunk := await response.content.readany()):
        body += chunk
    said = error_text(body[:MAX_ERROR_BODY_BYTES])
    if response.status != 200:
        retry = response.headers.get("Retry-After")
        after = f" (Retry-After: {retry})" if retry else ""
        return RequestError(
            kind="http", message=f"{response.status} {response.reason or ''}{after}: {said}", status=response.status
        )
    return RequestError(
        kind="protocol", message=f"answered {response.content_type} instead of an event stream: {said}", status=200
    )


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
