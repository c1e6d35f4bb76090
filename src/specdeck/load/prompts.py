"""Prompt sets: JSONL files with an id and a category per line, read strictly so that a typo never shrinks a set.

Files in layouts of others (datasets.py) are recognised by their first record, and read as strictly.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.datasets import LayoutError, csv_records, recognise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from specdeck.load.datasets import Layout

MAX_FILE_BYTES = 64 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: _NonEmpty


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One prompt: chat `messages` or a plain `prompt`, never both. `answer` is what a right reply ends with.

    `max_tokens` is its own output budget, instead of the plan's. `follow_ups` are what the user says after each answer:
    sent only in plans with `multi_turn`.
    """

    id: _Label
    category: _Label
    messages: tuple[Message, ...] | None = None
    prompt: _NonEmpty | None = None
    answer: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    follow_ups: tuple[_NonEmpty, ...] = ()

    @property
    def text(self) -> str:
        """The whole prompt text: the plain prompt, or the contents of all messages, one a line."""
        if self.messages is None:
            return self.prompt or ""
        return "\n".join(message.content for message in self.messages)


def load_prompts(path: Path) -> list[Prompt]:
    """Read a prompt set: our own JSONL, or a known layout as JSONL, as a JSON array, or as CSV with a header.

    Blank lines are allowed; a byte order mark is ignored. A record without an id gets its number.

    Raises:
        SpecdeckError: unreadable, empty, too large, not UTF-8, not JSON, an unknown or mistyped key, a duplicate id;
            with file and line.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SpecdeckError(
                f"the prompt set is {size / 2**20:.0f} MiB, more than the {MAX_FILE_BYTES >> 20} MiB that are read",
                where=str(path),
                fix="split the file; the plan key `limit` uses a part of it",
            )
        data = path.read_bytes()
    except OSError as error:
        raise SpecdeckError(
            f"the prompt set cannot be read: {error.strerror}", where=str(path), fix=f"check that {path} is a file"
        ) from error
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    for where, prompt in _read(data.removeprefix(b"\xef\xbb\xbf"), path):
        if prompt.id in seen:
            raise SpecdeckError(
                f"prompt id {prompt.id!r} is used twice, first in {seen[prompt.id]}",
                where=where,
                fix="give every prompt its own id: results are paired by it",
            )
        seen[prompt.id] = where.replace(f"{path}:", "line ").removeprefix(f"{path}, ")
        prompts.append(prompt)
    if not prompts:
        raise SpecdeckError("the prompt set is empty", where=str(path), fix="put at least one prompt in it")
    return prompts


def _read(data: bytes, path: Path) -> Iterator[tuple[str, Prompt]]:
    """Prompts, each with where it stands."""
    layout: Layout | None = None
    if path.suffix in {".json", ".csv"}:
        for number, record in enumerate(_records(data, path), 1):
            where = f"{path}, record {number}"
            layout = layout or _layout(record, where)
            yield where, _convert(layout, record, number, where)
        return
    decided = False
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        if not decided:
            layout, decided = _foreign_layout(line), True
        if layout is None:
            yield where, _parse_line(line, where)
            continue
        found = _json_object(line)
        if found is None:
            raise SpecdeckError("the line is not a JSON object", where=where, fix="correct the line")
        yield where, _convert(layout, found, number, where)


def _foreign_layout(line: bytes) -> Layout | None:
    """The layout of a JSONL file by its first line; None: our own, or nothing known, which our own reader explains."""
    record = _json_object(line)
    return None if record is None or {"id", "category"} <= record.keys() else recognise(record)


def _records(data: bytes, path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.suffix == ".csv":
            yield from map(dict, csv_records(data.decode("utf-8")))
            return
        whole = msgspec.json.decode(data.decode("utf-8"))
    except (UnicodeDecodeError, msgspec.DecodeError, csv.Error) as error:
        raise SpecdeckError(
            f"the prompt set cannot be read: {error}", where=str(path), fix="save it as UTF-8 CSV or a JSON array"
        ) from error
    if not isinstance(whole, list) or not all(isinstance(record, dict) for record in whole):
        raise SpecdeckError(
            "the file is not an array of objects",
            where=str(path),
            fix="write [{…}, …], or JSONL with one object a line",
        )
    yield from whole


def _layout(record: dict[str, Any], where: str) -> Layout:
    layout = recognise(record)
    if layout is None:
        raise SpecdeckError(
            f"no known layout has the keys {', '.join(sorted(map(str, record))) or '(none)'}",
            where=where,
            fix="give it a column or key `prompt`, or write id, category and messages",
        )
    return layout


def _convert(layout: Layout, record: dict[str, Any], number: int, where: str) -> Prompt:
    try:
        if not layout.keys <= record.keys():
            raise LayoutError(f"{', '.join(sorted(layout.keys - record.keys()))} is missing")
        prompt = msgspec.convert(layout.convert(record, number), Prompt)
    except (LayoutError, msgspec.ValidationError) as error:
        raise SpecdeckError(
            f"the record is not as in a {layout.name} file: {error}", where=where, fix="correct or remove the record"
        ) from error
    wrong = _objection(prompt)
    if wrong:
        raise SpecdeckError(f"prompt {prompt.id!r}: {wrong}", where=where, fix="correct or remove the record")
    return prompt


def _json_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _parse_line(line: bytes, where: str) -> Prompt:
    try:
        prompt = msgspec.json.decode(line.decode("utf-8"), type=Prompt)
    except UnicodeDecodeError as error:
        raise SpecdeckError(
            f"the line is not UTF-8: byte {error.start + 1} is 0x{line[error.start]:02x}",
            where=where,
            fix="save the file as UTF-8, one JSON object a line",
        ) from error
    except msgspec.DecodeError as error:
        raise SpecdeckError(
            f"the line is not a prompt: {error}",
            where=where,
            fix='write {"id": "…", "category": "…", "messages": [{"role": "user", "content": "…"}]}',
        ) from error
    wrong = _objection(prompt)
    if wrong:
        raise SpecdeckError(f"prompt {prompt.id!r}: {wrong}", where=where, fix="correct the line")
    return prompt


def _objection(prompt: Prompt) -> str | None:
    if (prompt.messages is None) == (prompt.prompt is None):
        return "give either messages or prompt, and only one of them"
    if _CONTROL.search(prompt.id + prompt.category):
        return "id and category may not contain control characters"
    if prompt.messages is not None:
        if not prompt.messages:
            return "messages is empty"
        if prompt.messages[-1].role != "user":
            return f"the last message is the {prompt.messages[-1].role}'s, but a model answers the user"
    if not prompt.text.strip():
        return "there is no text"
    return None
