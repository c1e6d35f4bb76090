"""What a stream of the loopback server looks like: its pace, its tokens a chunk, and how the network cuts it.

Everything is rendered before the first request of its kind is answered, so that serving costs a `send` a piece.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import cycle
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import orjson

MODEL = "loopback"
PROMPT_TOKENS = 8
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
)
WORD = "grün🦆 "
"""A token's text: characters of one, two and four bytes, so that a cut may fall inside one."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=1000)]
_Millis = Annotated[float, msgspec.Meta(ge=0, le=600_000)]


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream.

    Attributes:
        tokens: tokens a chunk, taken in turn, joined by `-`: `4`, or `1-8-3`.
        ttft_ms: from the request's last byte to the first chunk.
        interval_ms: between chunks; 0 sends as fast as the socket takes it.
        spread: start each stream's chunks at a place of its own within the interval.
        reasoning: so many chunks first are reasoning (chat only).
        tool_calls: so many chunks last are tool-call deltas (chat only).
        empty_every: every so manieth chunk has tokens but no text.
        cut: send each piece in two, cut after so many bytes (0: whole), `cut_gap_ms` apart.
        join: chunks a piece: what arrives at once although it was generated apart.
        line_end: `crlf` or `lf` between the lines of an event.
        comments: put a comment and a keep-alive before every event.
        usage: `continuous`: running totals in every chunk; `final`: one usage chunk at the end.
        done: end with `[DONE]`.
    """

    tokens: Annotated[str, msgspec.Meta(pattern=r"^[0-9]+(-[0-9]+)*$", max_length=200)] = "1"
    ttft_ms: _Millis = 10.0
    interval_ms: _Millis = 10.0
    spread: bool = False
    reasoning: _Count = 0
    tool_calls: _Count = 0
    empty_every: _Count = 0
    cut: _Count = 0
    cut_gap_ms: _Millis = 0.5
    join: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    line_end: Literal["lf", "crlf"] = "lf"
    comments: bool = False
    usage: Literal["continuous", "final"] = "continuous"
    done: bool = True

    @property
    def path(self) -> str:
        """The shape as the first part of a URL's path; what equals the default is left out."""
        words = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name in self.__struct_fields__
            if (value := getattr(self, name)) != getattr(_DEFAULT, name)
        ]
        return ",".join(words) or "plain"

    @classmethod
    def from_path(cls, text: str) -> Shape:
        """Read what `path` wrote.

        Raises:
            msgspec.ValidationError: an unknown key or a value out of its range.
        """
        if text == "plain":
            return cls()
        return msgspec.convert(dict(word.partition("=")[::2] for word in text.split(",")), cls, strict=False)


_DEFAULT = Shape()


class Piece(NamedTuple):
    """What goes out with one `send`: when (seconds after the request), and the tokens of each chunk it completes."""

    due_s: float
    data: bytes
    tokens: tuple[int, ...]


def chunk_tokens(shape: Shape, max_tokens: int) -> list[int]:
    """Tokens of each chunk: the shape's in turn until the budget is spent; the last chunk has what is left."""
    counts: list[int] = []
    left = max_tokens
    for count in cycle(max(1, int(word)) for word in shape.tokens.split("-")):
        if left <= 0:
            return counts
        counts.append(min(count, left))
        left -= counts[-1]
    return counts


@lru_cache(maxsize=64)
def render(shape: Shape, max_tokens: int, *, chat: bool) -> tuple[Piece, ...]:
    """All pieces of one answer, HTTP chunk framing included."""
    counts = chunk_tokens(shape, max_tokens)
    events: list[tuple[float, bytes, int | None]] = []
    total = 0
    if chat:
        role = {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        events.append((shape.ttft_ms, _event(shape, role, 0), None))
    for number, count in enumerate(counts):
        total += count
        finish = "length" if number == len(counts) - 1 else None
        choice = {**_delta(shape, number, count, len(counts), chat=chat), "finish_reason": finish}
        events.append((shape.ttft_ms + number * shape.interval_ms, _event(shape, choice, total), count))
    last = events[-1][0] if events else shape.ttft_ms
    events.append((last, _event(shape, None, total, always=True), None))
    if shape.done:
        events.append((last, _frame(shape, b"[DONE]"), None))
    return tuple(_pieces(shape, events, last))


def whole(tokens: int, *, chat: bool) -> dict[str, Any]:
    """An answer that is not streamed."""
    said = {"message": {"role": "assistant", "content": WORD * tokens}} if chat else {"text": WORD * tokens}
    return {
        "id": "loopback",
        "object": "chat.completion" if chat else "text_completion",
        "created": 1_767_225_600,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "length", **said}],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "total_tokens": PROMPT_TOKENS + tokens,
            "completion_tokens": tokens,
        },
    }


def _pieces(shape: Shape, events: list[tuple[float, bytes, int | None]], last: float) -> list[Piece]:
    pieces: list[Piece] = []
    waiting, tokens = b"", []
    for due_ms, data, count in events:
        waiting += b"%x\r\n%b\r\n" % (len(data), data)
        if count is None:
            continue
        tokens.append(count)
        if len(tokens) < shape.join:
            continue
        pieces += _cut(shape, due_ms, waiting, tuple(tokens))
        waiting, tokens = b"", []
    return [*pieces, Piece(last / 1000, waiting, tuple(tokens)), Piece(last / 1000, b"0\r\n\r\n", ())]


def _cut(shape: Shape, due_ms: float, data: bytes, tokens: tuple[int, ...]) -> list[Piece]:
    if not 0 < shape.cut < len(data):
        return [Piece(due_ms / 1000, data, tokens)]
    return [
        Piece(due_ms / 1000, data[: shape.cut], ()),
        Piece((due_ms + shape.cut_gap_ms) / 1000, data[shape.cut :], tokens),
    ]


def _delta(shape: Shape, number: int, count: int, chunks: int, *, chat: bool) -> dict[str, Any]:
    text = "" if shape.empty_every and (number + 1) % shape.empty_every == 0 else WORD * count
    if not chat:
        return {"text": text}
    if number < shape.reasoning:
        return {"delta": {"reasoning": text}}
    if number >= chunks - shape.tool_calls:
        return {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}}
    return {"delta": {"content": text}}


def _event(shape: Shape, choice: dict[str, Any] | None, total: int, *, always: bool = False) -> bytes:
    value: dict[str, Any] = {
        "id": "loopback-0123456789abcdef0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": MODEL,
        "choices": [] if choice is None else [{"index": 0, "logprobs": None, **choice}],
    }
    if always or shape.usage == "continuous":
        value["usage"] = {
            "prompt_tokens": PROMPT_TOKENS,
            "total_tokens": PROMPT_TOKENS + total,
            "completion_tokens": total,
        }
    return _frame(shape, orjson.dumps(value))


def _frame(shape: Shape, data: bytes) -> bytes:
    end = b"\r\n" if shape.line_end == "crlf" else b"\n"
    noise = b": ping" + end + end + b":" + end if shape.comments else b""
    return noise + b"data: " + data + end + end
