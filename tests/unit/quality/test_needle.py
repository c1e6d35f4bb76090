"""Needles: texts of the length asked for, both sides of the drafter's table, and what lost facts and drafts mean."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.quality import haystack
from specdeck.quality.asking import Reply
from specdeck.quality.check import NotApplicable
from specdeck.quality.needle import MAX_TOKENS, Needle, Seen, context_lengths, is_right
from specdeck.quality.questions import load_questions
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.recipe import Recipe

CHARACTERS = 4
"""A token of the double."""


class Reader:
    """A double that reads its prompt: it finds the code, but nothing beyond `sight` tokens, and drafts up to `reach`.

    No model small enough for a test machine finds facts in long texts, so that a sound one needs a double too.
    """

    def __init__(self, sight: int = 10**9, reach: int = 10**9) -> None:
        self.sight, self.reach = sight, reach
        self.lengths: list[int] = []

    async def tokenize(self, text: str) -> list[int]:
        return [0] * (len(text) // CHARACTERS)

    async def ask(self, prompt: dict[str, Any], **options: Any) -> Reply:
        assert options["max_tokens"] == MAX_TOKENS
        text = "\n".join(message["content"] for message in prompt["messages"])
        size = len(text) // CHARACTERS
        self.lengths.append(size)
        (place,) = re.findall(r"What is the door code of the (\w+)\?", text)
        codes = re.findall(rf"door code of the {place} is (\d+)\.", text)
        return Reply(
            text=f"{codes[0] if size <= self.sight else 111_111}, and the text is about a harbour.",
            reasoning="",
            finish_reason="stop",
            prompt_tokens=size,
            completion_tokens=40,
            cached_tokens=None,
            tokens=None,
            chosen=None,
            top=None,
            steps=10,
            accepted=30 + size % 3 if size <= self.reach else 2,
        )


def job(reader: Reader, recipe: Recipe | None, arm: str = "dflash2", length: int = 16_000) -> Any:
    return SimpleNamespace(
        asker=reader,
        arm=arm,
        recipe=recipe,
        root=repo_root(),
        max_model_len=length,
        limit=None,
        counter=lambda *_: lambda: None,
    )


@pytest.fixture(scope="module")
def far() -> Recipe:
    return load_recipe("qwen3.8-27b-fp8-2x5090-512k")


async def seen(reader: Reader, arm: str = "none", length: int = 16_000) -> Seen:
    return await Needle().observe(job(reader, None, arm, length))


async def test_texts_come_out_at_the_length_asked_for_and_hold_the_fact_once_at_its_depth() -> None:
    reader = Reader()
    found = await seen(reader)
    assert {one.length for one in found.placed} == set(context_lengths(16_000 - 160, None))
    for one in found.placed:
        assert one.length * 0.96 <= one.prompt_tokens <= one.length + 8
    assert {one.depth for one in found.placed} == {0.0, 0.25, 0.5, 0.75, 1.0}
    again = await seen(Reader())
    assert again == found
    text = haystack.haystack(100, haystack.needle(3), 0.25)
    assert text.split(haystack.needle(3).sentence)[0].count(".") == 25
    assert len({haystack.sentence(i) for i in range(20_000)}) == 20_000
    assert not re.search(r"\d{4}", " ".join(map(haystack.sentence, range(20_000))))


async def test_both_sides_of_the_end_of_the_drafters_table_are_asked_beyond_it(far: Recipe) -> None:
    reader = Reader()
    found = await Needle().observe(job(reader, far, length=524_288))
    table = found.table
    assert table == 262_144  # models/z-lab--qwen3.8-27b-dflash2.yml
    lengths = sorted({one.length for one in found.placed})
    assert table - MAX_TOKENS < table - MAX_TOKENS // 2 in lengths
    assert table + 1024 in lengths
    assert max(lengths) == 524_288 - 160
    rows = Needle().judge("dflash2", found, found, far).details["lengths"]
    assert [row["beyond_table"] for row in rows] == [row["length"] > table for row in rows]


@pytest.mark.parametrize(("room", "table"), [(30_000, 262_144), (300_000, None)])
def test_without_a_table_that_ends_below_the_context_only_the_ladder_is_asked(room: int, table: int | None) -> None:
    assert context_lengths(room, table) == context_lengths(room, None)


async def test_a_reader_that_finds_everything_passes() -> None:
    base = await seen(Reader())
    for arm, other in (("none", None), ("dflash2", base)):
        result = Needle().judge(arm, await seen(Reader()), other, None)
        assert (result.verdict, result.value) == ("pass", 1.0)
        assert all(row["acceptance_length"] > 3.9 for row in result.details["lengths"])


async def test_facts_lost_with_length_are_named_with_the_length() -> None:
    result = Needle().judge("none", await seen(Reader(sight=8000)), None, None)
    assert result.verdict == "fail"
    assert "from 15,840 tokens on 0 of 10 facts are found" in (result.reason or "")
    assert "this context is not served" in (result.reason or "")


async def test_facts_that_none_finds_and_an_arm_does_not_are_named_with_the_first_miss() -> None:
    base = await seen(Reader())
    result = Needle().judge("dflash2", await seen(Reader(sight=8000)), base, None)
    assert result.verdict == "fail"
    assert "the arm none's are" in (result.reason or "")
    assert "111111" in (result.reason or "")
    assert result.details["missed"]


async def test_drafts_that_end_at_a_length_are_named_although_every_fact_is_found() -> None:
    base = await seen(Reader())
    result = Needle().judge("dflash2", await seen(Reader(reach=8000)), base, None)
    assert (result.verdict, result.value) == ("fail", 1.0)
    assert "the drafter does not read that far" in (result.reason or "")
    assert "from 15,840 tokens on" in (result.reason or "")


async def test_a_model_that_finds_nothing_at_once_is_not_judged_by_length() -> None:
    result = Needle().judge("none", await seen(Reader(sight=0)), None, None)
    assert result.verdict == "unmeasurable"
    assert "this model cannot do it" in (result.reason or "")
    assert result.details["not_applicable"] is True
    alone = Needle().judge("dflash2", await seen(Reader()), None, None)
    assert alone.verdict == "unmeasurable"
    assert "--arm none" in (alone.reason or "")


async def test_a_server_with_no_room_or_no_known_length_has_nothing_to_check() -> None:
    with pytest.raises(NotApplicable, match="leave no room"):
        await seen(Reader(), length=200)
    with pytest.raises(NotApplicable, match="does not say how long"):
        await Needle().observe(job(Reader(), None, length=None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "last", "right"),
    [
        ("481,516 is it", False, True),
        ("It is 481516.", False, True),
        ("It is 48151.", False, False),
        ("481516 of 20 pages", True, False),
        ("of 20 pages 481516", True, True),
        ("nothing", False, False),
    ],
)
def test_a_right_answer_has_the_number_whole(text: str, last: bool, right: bool) -> None:
    assert is_right("481516", text, last=last) is right


def test_questions_are_read_strictly(tmp_path: Path) -> None:
    folder = tmp_path / "bench" / "questions"
    folder.mkdir(parents=True)
    row = {"id": "a", "question": "1 + 1?", "answer": "It is 2.\n#### 2"}
    (folder / "own.jsonl").write_text(json.dumps(row) + "\n")
    (question,) = load_questions(tmp_path, "own")
    assert (question.worked, question.number) == ("It is 2.", "2")
    (folder / "own.jsonl").write_text(json.dumps(row | {"answer": "It is 2."}) + "\n")
    with pytest.raises(SpecdeckError, match="#### NUMBER") as error:
        load_questions(tmp_path, "own")
    assert "own.jsonl:1" in (error.value.where or "")
    with pytest.raises(SpecdeckError, match="no questions called 'other'"):
        load_questions(tmp_path, "other")


def test_the_committed_questions_are_enough_and_all_differ() -> None:
    questions = load_questions(repo_root(), "tiny-next")
    assert len({q.question for q in questions}) == len(questions) >= 300
