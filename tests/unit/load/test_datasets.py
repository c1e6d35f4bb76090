"""Files in the layouts people have are read as prompts: what is asked, never the recorded reply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.load.prompts import Prompt, load_prompts

if TYPE_CHECKING:
    from pathlib import Path

SHAREGPT = {
    "id": "QWJhYvA_0",
    "conversations": [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "What is a duck?"},
        {"from": "gpt", "value": "A bird."},
        {"from": "human", "value": "And a goose?"},
    ],
}
MESSAGES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is a duck?"},
        {"role": "assistant", "content": "A bird."},
    ]
}
LAYOUTS: list[tuple[dict[str, Any], tuple[str, str, str, str | None]]] = [
    (SHAREGPT, ("QWJhYvA_0", "sharegpt", "What is a duck?", None)),
    (MESSAGES, ("1", "messages", "Be brief.\nWhat is a duck?", None)),
    (
        {"custom_id": "c-7", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", **MESSAGES}},
        ("c-7", "messages", "Be brief.\nWhat is a duck?", None),
    ),
    (
        {"question_id": 81, "category": "writing", "turns": ["Write a post.", "Shorten it."]},
        ("81", "writing", "Write a post.", None),
    ),
    (
        {"question": "How many eggs?", "answer": "She has 3 * 400 = <<3*400=1200>>1200.\n#### 1,200"},
        ("1", "math", "How many eggs?", "1200"),
    ),
    (
        {"task_id": "HumanEval/0", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "", "test": ""},
        ("HumanEval/0", "code", "def f():\n", None),
    ),
    ({"prompt": "Say hi", "output_tokens": 5}, ("1", "prompts", "Say hi", None)),
]


def _read(path: Path, data: str) -> list[Prompt]:
    path.write_text(data, encoding="utf-8")
    return load_prompts(path)


def _said(prompt: Prompt) -> tuple[str, str, str, str | None]:
    return prompt.id, prompt.category, prompt.text, prompt.answer


@pytest.mark.parametrize(("record", "expected"), LAYOUTS)
def test_each_layout_is_recognised_by_its_first_record_as_jsonl_and_as_a_json_array(
    tmp_path: Path, record: dict[str, Any], expected: tuple[str, str, str, str | None]
) -> None:
    assert [_said(p) for p in _read(tmp_path / "a.jsonl", json.dumps(record) + "\n\n")] == [expected]
    assert [_said(p) for p in _read(tmp_path / "a.json", json.dumps([record]))] == [expected]


def test_history_in_the_middle_of_a_conversation_stays_and_the_reply_at_its_end_goes(tmp_path: Path) -> None:
    turns = [*MESSAGES["messages"], {"role": "user", "content": "And a goose?"}, {"role": "assistant", "content": "x"}]
    (prompt,) = _read(tmp_path / "a.jsonl", json.dumps({"messages": turns}))
    assert prompt.messages is not None
    assert [m.role for m in prompt.messages] == ["system", "user", "assistant", "user"]


def test_csv_takes_its_columns_by_name_with_quotes_and_line_breaks(tmp_path: Path) -> None:
    text = 'ID,Category,Prompt,answer\n7,math,"1, 2,\nand?",3\n8,math,Next,\n'
    assert [_said(p) for p in _read(tmp_path / "a.csv", text)] == [
        ("7", "math", "1, 2,\nand?", "3"),
        ("8", "math", "Next", None),
    ]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.jsonl", json.dumps(SHAREGPT) + '\n{"id": 2}', "not as in a ShareGPT file: conversations is missing"),
        ("a.jsonl", json.dumps(SHAREGPT) + "\nnot json", "a.jsonl:2"),
        ("a.jsonl", json.dumps({"conversations": [{"from": "gpt", "value": "x"}]}), "no turn is from the human"),
        ("a.jsonl", json.dumps({"conversations": 3}), "conversations is not a list"),
        ("a.jsonl", json.dumps({"messages": [{"role": "user", "content": [1]}]}), "content is not a text"),
        ("a.jsonl", json.dumps({"question_id": 1, "turns": []}), "turns holds no text"),
        ("a.jsonl", json.dumps(SHAREGPT) + "\n" + json.dumps(SHAREGPT), "used twice, first in line 1"),
        ("a.json", "{}", "not an array of objects"),
        ("a.json", "[", "cannot be read"),
        ("a.json", json.dumps([{"x": 1}]), "no known layout has the keys x"),
        ("a.csv", "x,y\n1,2\n", "no known layout has the keys x, y"),
        ("a.csv", "", "empty"),
    ],
)
def test_what_does_not_fit_its_layout_is_refused_with_its_place(
    tmp_path: Path, name: str, data: str, says: str
) -> None:
    with pytest.raises(SpecdeckError) as caught:
        _read(tmp_path / name, data)
    assert says in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_what_the_user_says_later_is_kept_and_recorded_replies_are_not(tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "one"}, {"from": "gpt", "value": "x"}, {"from": "human", "value": "two"},
    ]  # fmt: skip
    for record in ({"conversations": turns}, {"question_id": 1, "turns": ["one", "two"]}):
        (prompt,) = _read(tmp_path / "a.jsonl", json.dumps(record))
        assert (prompt.prompt, prompt.follow_ups) == ("one", ("two",))
