"""A prompt set is read whole or refused with file and line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.load.prompts import Prompt, load_prompts
from specdeck.paths import repo_root

if TYPE_CHECKING:
    from pathlib import Path

GOOD = b'{"id": "a-1", "category": "a", "messages": [{"role": "user", "content": "Hi"}], "answer": "Ho"}\n'


def _load(tmp_path: Path, data: bytes) -> list[Prompt]:
    path = tmp_path / "set.jsonl"
    path.write_bytes(data)
    return load_prompts(path)


def test_a_sound_set_is_read_with_answers_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    prompts = _load(tmp_path, b"\xef\xbb\xbf" + GOOD + b'\n{"id": "p", "category": "b", "prompt": "Once"}')
    assert [(p.id, p.category, p.text, p.answer) for p in prompts] == [
        ("a-1", "a", "Hi", "Ho"),
        ("p", "b", "Once", None),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"id": "x", "category": "a"}', "either messages or prompt"),
        (b'{"id": "x", "category": "a", "prompt": "p", "messages": [{"role": "user", "content": "c"}]}', "only one"),
        (b'{"id": "x", "category": "a", "promt": "p"}', "promt"),
        (b'{"id": 3, "category": "a", "prompt": "p"}', r"\$.id"),
        (b'{"id": "", "category": "a", "prompt": "p"}', r"\$.id"),
        (b'{"id": "x", "prompt": "p"}', "category"),
        (b'{"id": "x\\n", "category": "a", "prompt": "p"}', "control characters"),
        (b'{"id": "x", "category": "a", "prompt": "  "}', "no text"),
        (b'{"id": "x", "category": "a", "messages": []}', "messages is empty"),
        (b'{"id": "x", "category": "a", "messages": [{"role": "assistant", "content": "c"}]}', "answers the user"),
        (b'{"id": "x", "category": "a", "messages": [{"role": "robot", "content": "c"}]}', "robot"),
        (b'{"id": "a-1", "category": "a", "prompt": "p"}', "used twice, first in line 1"),
        (b"\xff\xfe\x00", "not UTF-8: byte 1 is 0xff"),
        (b"not json", "not a prompt"),
        (b"[1]", "not a prompt"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_a_fix(tmp_path: Path, line: bytes, says: str) -> None:
    with pytest.raises(SpecdeckError, match=says) as caught:
        _load(tmp_path, GOOD + line + b"\n")
    assert caught.value.where == f"{tmp_path}/set.jsonl:2"
    assert caught.value.fix


@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_an_empty_set_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SpecdeckError, match="empty"):
        _load(tmp_path, data)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="No such file") as caught:
        load_prompts(tmp_path / "none.jsonl")
    assert str(tmp_path / "none.jsonl") in str(caught.value)


def test_the_shipped_sets_have_their_stated_shape_and_share_no_prompt() -> None:
    folder = repo_root() / "bench" / "prompts"
    core, large, warm = (load_prompts(folder / f"{name}.jsonl") for name in ("core-10", "core-80", "warmup"))
    assert set(Counter(p.category for p in core)) == {"math", "code", "chat"}
    assert len(core) == 10
    assert list(Counter(p.category for p in large).values()) == [10] * 8
    assert all(p.id.rsplit("-", 1)[0] == p.category for p in (*core, *large, *warm))
    texts = [p.text for p in (*core, *large, *warm)]
    assert len(set(texts)) == len(texts)
