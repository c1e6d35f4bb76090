"""Made workloads keep the questions, are the same on every machine, and have exactly the words asked for."""

from __future__ import annotations

import pytest

from specdeck.load.prompts import Message, Prompt
from specdeck.load.workloads import apply, filler, random_text

PROMPTS = [Prompt(id=f"p{n}", category="c", prompt=f"question {n}", answer="a") for n in range(4)]


@pytest.mark.parametrize("words", [1, 7, 1000])
def test_text_has_exactly_the_words_asked_for_and_depends_on_the_seed_alone(words: int) -> None:
    for make in (filler, random_text):
        assert len(make(words, "a").split()) == words
        assert make(words, "a") == make(words, "a")
    assert filler(50, "a") != filler(50, "b")
    assert random_text(50, "a") != random_text(50, "b")


def test_filler_is_the_same_text_on_every_machine_and_version() -> None:
    assert filler(8, "0/group 0") == FIRST_WORDS


FIRST_WORDS = "On Tuesday the store in Cadiz held 31"


def test_prompts_of_a_group_share_their_prefix_and_keep_their_question() -> None:
    made = apply(PROMPTS, "shared_prefix", words=20, groups=2)
    prefixes = [prompt.text.split("\n\n")[0] for prompt in made]
    assert prefixes[0] == prefixes[2] != prefixes[1] == prefixes[3]
    assert [prompt.text.split("\n\n")[1] for prompt in made] == [prompt.text for prompt in PROMPTS]
    assert [(prompt.id, prompt.answer) for prompt in made] == [(prompt.id, "a") for prompt in PROMPTS]


def test_each_long_context_is_its_own_so_that_no_prompt_finds_anothers_cache() -> None:
    made = apply(PROMPTS, "long_context", words=100)
    assert len({prompt.text.split("\n\n")[0] for prompt in made}) == len(PROMPTS)
    assert apply(PROMPTS, "long_context", words=100, seed=1) != made


def test_in_a_conversation_the_text_stands_before_the_first_thing_the_user_says() -> None:
    messages = (
        Message("system", "be brief"),
        Message("user", "hello"),
        Message("assistant", "hi"),
        Message("user", "q"),
    )
    (made,) = apply([Prompt(id="p", category="c", messages=messages)], "shared_prefix", words=3)
    assert made.messages is not None
    pairs = list(zip(made.messages, messages, strict=True))
    assert all(new.content.endswith(old.content) for new, old in pairs)
    assert [new.content == old.content for new, old in pairs] == [True, False, True, True]


def test_random_text_drops_the_question_and_says_so_by_its_category() -> None:
    made = apply(PROMPTS, "random", words=30)
    assert {prompt.category for prompt in made} == {"random"}
    assert all("question" not in prompt.text and len(prompt.text.split()) == 30 for prompt in made)
    assert [prompt.id for prompt in made] == [prompt.id for prompt in PROMPTS]
