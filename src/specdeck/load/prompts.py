"""Prompt sets: JSONL files with an id and a category per line, read strictly so that a typo never shrinks a set."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 64 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: _NonEmpty


class Prompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One prompt: chat `messages` or a plain `prompt`, never both. `answer` is what a right reply ends with."""

    id: _Label
    category: _Label
    messages: tuple[Message, ...] | None = None
    prompt: _NonEmpty | None = None
    answer: str | None = None

    @property
    def text(self) -> str:
        """The whole prompt text: the plain prompt, or the contents of all messages, one a line."""
        if self.messages is None:
            return self.prompt or ""
        return "\n".join(message.content for message in self.messages)


def load_prompts(path: Path) -> list[Prompt]:
    """Read a prompt set.

    Blank lines are allowed; a byte order mark is ignored.

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
    lines: dict[str, int] = {}
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        prompt = _parse_line(line, f"{path}:{number}")
        if prompt.id in lines:
            raise SpecdeckError(
                f"prompt id {prompt.id!r} is used twice, first in line {lines[prompt.id]}",
                where=f"{path}:{number}",
                fix="give every prompt its own id: results are paired by it",
            )
        lines[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise SpecdeckError("the prompt set is empty", where=str(path), fix="put at least one prompt in it")
    return prompts


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
