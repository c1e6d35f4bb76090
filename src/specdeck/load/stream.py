"""What the bytes of a streamed answer mean: server-sent events with the time each arrived, then text and tokens.

Pure functions, run after the request's last byte. Follows the WHATWG server-sent events grammar.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from specdeck.load.exchange import DONE, error_text
from specdeck.results.schema import RequestError, SpecPayload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_PAYLOAD_KEYS = frozenset(SpecPayload.__struct_fields__)


class Event(NamedTuple):
    """One event's data. `stamp`: when its last byte arrived. Not `complete`: the stream ended inside it."""

    stamp: float
    data: bytes
    complete: bool


def split_events(stamps: Sequence[float], chunks: Sequence[bytes]) -> list[Event]:
    r"""Split a received stream into events, however the network cut or joined it.

    Lines may end in LF, CR LF or CR; comments, `event`, `id` and `retry` fields are passed over.

    Args:
        stamps: arrival time of each chunk.
        chunks: the bytes, same length as `stamps`.
    """
    data = b"".join(chunks)
    ends: list[int] = []
    total = 0
    for chunk in chunks:
        total += len(chunk)
        ends.append(total)
    events: list[Event] = []
    parts: list[bytes] = []
    at = 0
    start = len(_BOM) if data.startswith(_BOM) else 0
    for match in _LINE_END.finditer(data, start):
        line, start = data[start : match.start()], match.end()
        if line:
            _take_field(line, parts)
        elif parts:
            while ends[at] < start:
                at += 1
            events.append(Event(stamps[at], b"\n".join(parts), True))
            parts = []
    if start < len(data):
        _take_field(data[start:], parts)
    if parts:
        events.append(Event(stamps[-1], b"\n".join(parts), False))
    return events


def _take_field(line: bytes, parts: list[bytes]) -> None:
    name, _, value = line.partition(b":")
    if name == b"data":
        parts.append(value.removeprefix(b" "))


@dataclass(slots=True)
class Answer:
    """One streamed answer, read. Times are on the clock of the stamps; None: the server did not say."""

    text: str = ""
    reasoning: str = ""
    first_token: float | None = None
    first_content: float | None = None
    chunk_stamps: list[float] = field(default_factory=list)
    chunk_tokens: list[int] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    model: str | None = None
    spec: SpecPayload | None = None
    error: RequestError | None = None

    @property
    def last_token(self) -> float | None:
        """When the last chunk that carried text or tokens arrived."""
        return self.chunk_stamps[-1] if self.chunk_stamps else None

    @property
    def sha256(self) -> str:
        """Hash of the whole answer: the text, or reasoning, NUL, text where there was reasoning."""
        whole = f"{self.reasoning}\0{self.text}" if self.reasoning else self.text
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


class _Malformed(Exception):  # noqa: N818 - a signal inside this module
    pass


def read_answer(events: Iterable[Event]) -> Answer:
    """Read a chat or completions stream, errors included: whatever came before an error is kept.

    A chunk advances the answer when it has text (content, reasoning, tool calls) or, by continuous usage, tokens.
    """
    reader = _Reader()
    count = 0
    for event in events:
        if event.data == DONE:
            break
        count += 1
        try:
            reader.take(event)
        except _Malformed as problem:
            reader.answer.error = RequestError(kind="protocol", message=f"event {count}: {problem}")
        if reader.answer.error is not None:
            break
    return reader.finish(count)


class _Reader:
    def __init__(self) -> None:
        self.answer = Answer()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tokens: list[int] = []
        self._counted = True
        self._seen = 0

    def take(self, event: Event) -> None:
        try:
            value = orjson.loads(event.data)
        except orjson.JSONDecodeError as error:
            if not event.complete:
                self.answer.error = RequestError(kind="stream", message="the stream ended in the middle of an event")
                return
            raise _Malformed(f"invalid JSON: {error}") from error
        if not isinstance(value, dict):
            raise _Malformed(f"not an object but {type(value).__name__}")
        if value.get("error") is not None:
            self.answer.error = RequestError(kind="server", message=error_text(event.data), status=_status(value))
            return
        if self.answer.model is None and isinstance(value.get("model"), str):
            self.answer.model = value["model"]
        tokens = self._usage(_optional(value, "usage", dict))
        self._payload(value)
        choices = _optional(value, "choices", list)
        if choices:
            self._choice(choices[0], event.stamp, tokens)

    def _usage(self, usage: dict[str, Any] | None) -> int | None:
        """Return how many tokens are new since the last usage; None where the event has no usage."""
        if usage is None:
            return None
        answer = self.answer
        answer.prompt_tokens = _count(usage, "prompt_tokens", answer.prompt_tokens)
        answer.completion_tokens = _count(usage, "completion_tokens", answer.completion_tokens)
        details = _optional(usage, "prompt_tokens_details", dict)
        if details is not None:
            answer.cached_tokens = _count(details, "cached_tokens", answer.cached_tokens)
        new = (answer.completion_tokens or 0) - self._seen
        if new < 0:
            raise _Malformed(f"usage.completion_tokens fell from {self._seen} to {answer.completion_tokens}")
        self._seen += new
        return new

    def _payload(self, value: dict[str, Any]) -> None:
        metrics = _optional(value, "metrics", dict)
        payload = _optional(metrics, "speculative_decoding", dict) if metrics else None
        if payload is None:
            return
        known = {key: item for key, item in payload.items() if key in _PAYLOAD_KEYS}
        try:
            self.answer.spec = msgspec.convert(known, SpecPayload)
        except msgspec.ValidationError as error:
            raise _Malformed(f"metrics.speculative_decoding: {error}") from error

    def _choice(self, choice: Any, stamp: float, tokens: int | None) -> None:
        if not isinstance(choice, dict):
            raise _Malformed("choices[0] is not an object")
        answer = self.answer
        answer.finish_reason = _optional(choice, "finish_reason", str) or answer.finish_reason
        delta = _optional(choice, "delta", dict) or {}
        content = _optional(delta, "content", str) or _optional(choice, "text", str) or ""
        reasoning = _optional(delta, "reasoning", str) or _optional(delta, "reasoning_content", str) or ""
        calls = bool(delta.get("tool_calls"))
        if not (content or reasoning or calls or tokens):
            return
        answer.chunk_stamps.append(stamp)
        if tokens is None:
            self._counted = False
        else:
            self._tokens.append(tokens)
        self._text.append(content)
        self._reasoning.append(reasoning)
        if answer.first_token is None:
            answer.first_token = stamp
        if answer.first_content is None and (content or calls):
            answer.first_content = stamp

    def finish(self, count: int) -> Answer:
        answer = self.answer
        answer.text, answer.reasoning = "".join(self._text), "".join(self._reasoning)
        if self._counted and self._tokens:
            answer.chunk_tokens = self._tokens
        if answer.error is None:
            if count == 0:
                answer.error = RequestError(kind="protocol", message="the stream held no event")
            elif answer.finish_reason is None:
                answer.error = RequestError(
                    kind="stream", message=f"the stream ended after {count} events without a finish reason"
                )
        return answer


def _optional(value: dict[str, Any], key: str, kind: type[Any]) -> Any:
    item = value.get(key)
    if item is not None and not isinstance(item, kind):
        raise _Malformed(f"{key} is {type(item).__name__}, not {kind.__name__}")
    return item


def _count(value: dict[str, Any], key: str, before: int | None) -> int | None:
    item = value.get(key)
    if item is None:
        return before
    if isinstance(item, bool) or not isinstance(item, int) or item < 0:
        raise _Malformed(f"{key} is {item!r}, not a count")
    return item


def _status(value: dict[str, Any]) -> int | None:
    inner = value["error"]
    code = inner.get("code") if isinstance(inner, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None
