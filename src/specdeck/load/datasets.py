"""Prompt files in others' layouts: each record becomes a Prompt with an id and a category. Pure.

Only what is asked is taken, never the recorded replies, so that the model answers. What the user says in later turns of
a conversation becomes `follow_ups`.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Record = Mapping[str, Any]

_FINAL_ANSWER = re.compile(r"####\s*(\S.*?)\s*$")
_CSV_TEXT = ("prompt", "question", "text", "instruction")


class LayoutError(Exception):
    """A record does not have what its layout promises."""


@dataclass(frozen=True)
class Layout:
    """A known layout.

    Attributes:
        keys: what a record must have to be of this layout.
        convert: a record and its number (from 1) to the fields of a Prompt.
    """

    name: str
    keys: frozenset[str]
    convert: Callable[[Record, int], dict[str, Any]]


def recognise(record: Record) -> Layout | None:
    """The layout of a file by its first record; None: no known one. The layouts that ask for most come first."""
    return next((layout for layout in LAYOUTS if layout.keys <= record.keys()), None)


def csv_records(text: str) -> Iterator[Record]:
    """Records of a CSV file with a header; empty cells are left out."""
    for row in csv.DictReader(io.StringIO(text)):
        yield {key.strip().lower(): value for key, value in row.items() if key and isinstance(value, str) and value}


def _sharegpt(record: Record, number: int) -> dict[str, Any]:
    turns = _list(record, "conversations")
    if not any(isinstance(t, dict) and t.get("from") in {"human", "user"} for t in turns):
        raise LayoutError("no turn is from the human")
    said = [_text(t, "value") for t in turns if isinstance(t, dict) and t.get("from") in {"human", "user"}]
    return {**_prompt(record.get("id", number), "sharegpt", said[0]), "follow_ups": [text for text in said[1:] if text]}


def _batch(record: Record, number: int) -> dict[str, Any]:
    body = record["body"]
    if not isinstance(body, dict):
        raise LayoutError("body is not an object")
    converted = (_messages if "messages" in body else _plain)(body, number)
    return {**converted, "id": str(record["custom_id"])}


def _messages(record: Record, number: int) -> dict[str, Any]:
    """OpenAI's chat layout. Replies at the end are left out; those in the middle are history."""
    messages = [{"role": _text(m, "role"), "content": _text(m, "content")} for m in _list(record, "messages")]
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    if not messages:
        raise LayoutError("no message is the user's")
    return {
        "id": str(record.get("id", number)),
        "category": str(record.get("category", "messages")),
        "messages": messages,
    }


def _turns(record: Record, number: int) -> dict[str, Any]:
    """spec_bench and MT-bench."""
    turns = _list(record, "turns")
    if not turns or not isinstance(turns[0], str):
        raise LayoutError("turns holds no text")
    made = _prompt(record.get("question_id", number), str(record.get("category", "turns")), turns[0])
    return {**made, "follow_ups": [text for text in turns[1:] if isinstance(text, str) and text]}


def _gsm8k(record: Record, number: int) -> dict[str, Any]:
    found = _FINAL_ANSWER.search(_text(record, "answer"))
    answer = found[1].replace(",", "") if found else _text(record, "answer")
    category = str(record.get("category", "math"))
    return {**_prompt(record.get("id", number), category, _text(record, "question")), "answer": answer}


def _human_eval(record: Record, _number: int) -> dict[str, Any]:
    return _prompt(record["task_id"], "code", _text(record, "prompt"))


def _plain(record: Record, number: int) -> dict[str, Any]:
    text = next((record[key] for key in _CSV_TEXT if isinstance(record.get(key), str)), None)
    if text is None:
        raise LayoutError(f"none of {', '.join(_CSV_TEXT)} is a text")
    converted = _prompt(record.get("id", number), str(record.get("category", "prompts")), text)
    return {**converted, **({"answer": str(record["answer"])} if record.get("answer") else {})}


def _prompt(name: object, category: str, text: str) -> dict[str, Any]:
    return {"id": str(name), "category": category, "prompt": text}


def _list(record: Record, key: str) -> list[Any]:
    value = record[key]
    if not isinstance(value, list):
        raise LayoutError(f"{key} is not a list")
    return value


def _text(record: Any, key: str) -> str:
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, str):
        raise LayoutError(f"{key} is not a text")
    return value


LAYOUTS = (
    Layout("OpenAI batch", frozenset({"custom_id", "body"}), _batch),
    Layout("HumanEval", frozenset({"task_id", "prompt", "entry_point"}), _human_eval),
    Layout("spec_bench or MT-bench", frozenset({"question_id", "turns"}), _turns),
    Layout("ShareGPT", frozenset({"conversations"}), _sharegpt),
    Layout("OpenAI messages", frozenset({"messages"}), _messages),
    Layout("gsm8k", frozenset({"question", "answer"}), _gsm8k),
    *(Layout("plain", frozenset({key}), _plain) for key in _CSV_TEXT),
)
