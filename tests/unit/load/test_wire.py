"""What a raw server may do on the wire, on asyncio's own loop and on uvloop: each end is told for what it is."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.fake_server import answer_events

from specdeck.errors import SpecdeckError
from specdeck.load import wire
from specdeck.load.client import Target
from specdeck.load.loop import LoadOutcome, run_load
from specdeck.load.pool import Pool
from specdeck.load.prompts import Prompt
from specdeck.results.schema import RequestRecord, Sampling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BODY = b"".join(answer_events(speculative=True))
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = STREAM + b"Transfer-Encoding: chunked\r\n\r\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def _framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


@asynccontextmanager
async def _raw_server(answer: Answer) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def _load(answer: Answer, count: int = 1, *, loop: str = "uvloop", timeout_s: float = 5.0) -> LoadOutcome:
    async def run() -> LoadOutcome:
        prompts = [Prompt(id=f"p-{i}", category="c", prompt="x") for i in range(count)]
        async with _raw_server(answer) as url:
            return await run_load(
                Target(url, "tiny"),
                prompts,
                concurrency=1,
                sampling=Sampling(temperature=0, max_tokens=9),
                request_timeout_s=timeout_s,
            )

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(run())


def _sends(*parts: bytes, then_close: bool = False, pause_s: float = 0.0) -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if then_close:
            writer.close()

    return answer


def _error(record: RequestRecord) -> tuple[str, str]:
    assert record.error is not None
    return record.error.kind, record.error.message


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "answer",
    [
        _sends(CHUNKED + _framed(BODY) + b"0\r\n\r\n"),
        _sends(CHUNKED, _framed(BODY), b"0\r\nServer-Timing: x\r\n\r\n", pause_s=0.01),
        _sends(*(bytes([byte]) for byte in CHUNKED + _framed(BODY) + b"0\r\n\r\n")),
        _sends(STREAM + b"Content-Length: %d\r\n\r\n" % len(BODY), BODY),
        _sends(STREAM + b"\r\n", BODY, then_close=True),
        _sends(b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED + _framed(BODY) + b"0\r\n\r\n"),
        _sends(CHUNKED, *(_framed(e.replace(b"\n", b"\r\n")) for e in answer_events(speculative=True)), b"0\r\n\r\n"),
        _sends(CHUNKED, _framed(BODY.removesuffix(b"data: [DONE]\n\n")), b"0\r\n\r\n"),
    ],
    ids=["whole", "trailer", "bytewise", "length", "until-closed", "continue", "crlf", "no-done"],
)
def test_every_way_to_frame_an_answer_is_read_whole(answer: Answer, loop: str) -> None:
    outcome = _load(answer, 2, loop=loop)
    assert [(record.error, record.text) for record in outcome.records] == [(None, "abcdbcdbcdbcd")] * 2


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (_sends(b"SSH-2.0-OpenSSH\r\n"), "protocol", "not an HTTP answer"),
        (_sends(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000), "protocol", "larger than 64 KiB"),
        (_sends(CHUNKED + b"zz\r\n\r\n"), "protocol", "chunked encoding is broken"),
        (_sends(CHUNKED[:30], then_close=True), "stream", "before it answered"),
        (_sends(CHUNKED + _framed(BODY)[:200], then_close=True), "stream", "in the middle of its answer"),
        (_sends(STREAM + b"Content-Length: 9000\r\n\r\n" + BODY[:50], then_close=True), "stream", "in the middle"),
        (_sends(STREAM + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"), "protocol", "gzip"),
        (_sends(b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"), "http", "Location: /login"),
        (_sends(CHUNKED + b"0\r\n\r\n"), "protocol", "no event"),
        (_sends(CHUNKED + b"0\r\n\r\nHTTP/1.1 408 Late\r\n\r\n"), "protocol", "after the end of the body"),
    ],
)
def test_what_is_no_sound_answer_is_classified(answer: Answer, kind: str, says: str) -> None:
    found, message = _error(_load(answer).records[0])
    assert found == kind
    assert says in message


def _reset_after(count: int) -> Answer:
    """Send so many bytes of a sound answer, then reset the connection instead of closing it."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SOUND[:count])
        await writer.drain()
        await asyncio.sleep(0.02)
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return answer


SOUND = CHUNKED + b"".join(map(_framed, answer_events(speculative=True))) + b"0\r\n\r\n"
BEFORE_DONE = SOUND.index(b"data: [DONE]")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, len(SOUND)))
@example(0)
@example(len(CHUNKED))
@example(BEFORE_DONE)
def test_a_connection_reset_at_any_byte_is_one_failed_request_that_keeps_what_it_said(count: int) -> None:
    record = _load(_reset_after(count)).records[0]
    assert "abcdbcdbcdbcd".startswith(record.text)
    if count < BEFORE_DONE:
        assert _error(record)[0] == "stream"
        assert record.text_sha256 is None
    else:
        assert record.error is None or record.error.kind == "stream"
    if record.error is None:
        assert record.text == "abcdbcdbcdbcd"


def test_a_server_that_closes_its_half_in_mid_answer_is_told_at_once_and_not_at_the_time_limit() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SOUND[: BEFORE_DONE - 60])
        await writer.drain()
        writer.write_eof()
        await reader.read()

    record = _load(answer, timeout_s=60.0).records[0]
    assert _error(record)[0] == "stream"
    assert record.end_s < 30


@pytest.mark.parametrize("megabytes", [1, 24])
def test_a_giant_event_is_read_whole_and_a_giant_broken_one_is_a_short_message(megabytes: int) -> None:
    text = b"y" * (megabytes << 20)
    event = b'data: {"choices":[{"delta":{"content":"%b"},"finish_reason":"stop"}]}\n\n' % text
    sound = _load(_sends(CHUNKED + _framed(event) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"), timeout_s=60).records[
        0
    ]
    assert (sound.error, len(sound.text)) == (None, len(text))
    broken = _load(_sends(CHUNKED + _framed(event[:-5] + b"\n\n") + b"0\r\n\r\n"), timeout_s=60).records[0]
    kind, message = _error(broken)
    assert kind in {"protocol", "stream"}
    assert len(message) < 500


def test_an_answer_beyond_the_limit_is_cut_off_instead_of_filling_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_RESPONSE_BYTES", 2**20)

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        while not writer.is_closing():
            writer.write(_framed(b"data: " + b"z" * 65536))
            await writer.drain()

    kind, message = _error(_load(answer, timeout_s=60).records[0])
    assert (kind, "larger than" in message) == ("protocol", True)


def test_a_wall_clock_that_jumps_moves_no_time_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    real, jumps = time.time, itertools.cycle((0.0, -86_400.0, 86_400.0 * 365))
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    outcome = _load(_sends(SOUND), 3)
    for record in outcome.records:
        assert record.error is None
        assert record.sent_s is not None
        assert record.first_token_s is not None
        assert (
            0 <= record.scheduled_s <= record.sent_s <= record.first_token_s <= record.end_s <= outcome.duration_s < 60
        )


def test_a_slow_loris_head_ends_at_the_time_limit() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in CHUNKED * 50:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    record = _load(answer, timeout_s=0.4).records[0]
    assert _error(record)[0] == "timeout"
    assert record.end_s < 3


def test_an_endless_error_page_is_cut_off_and_the_connection_is_not_used_again() -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(_framed(b"<p>failure</p>" * 1000))
            await writer.drain()

    outcome = _load(answer, 2)
    assert [_error(record)[0] for record in outcome.records] == ["http", "http"]


async def test_a_key_with_a_line_break_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SpecdeckError, match="cannot stand in a request") as caught:
        Pool(Target("http://127.0.0.1:1", "m", api_key="sk-1\nX: y"), 1)
    assert "sk-1" not in str(caught.value)
    with pytest.raises(SpecdeckError, match="not an http or https URL"):
        Pool(Target("ftp://h", "m"), 1)
