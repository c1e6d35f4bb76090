"""Prompts made of others: random text, a prefix that prompts share, a long context before each question. Pure.

Filler is written from a seed, the same on every machine: short factual sentences, so that a model reads text and not
noise. The questions stay those of the prompt set, which is what keeps acceptance meaningful.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

import msgspec

from specdeck.load.prompts import Message, Prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["random", "shared_prefix", "long_context"]
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"
_PLACES = ("Bergen", "Cadiz", "Gdansk", "Genoa", "Leith", "Narvik", "Porto", "Riga", "Split", "Turku")
_GOODS = ("barley", "copper wire", "cork", "dried cod", "glass", "lamp oil", "linen", "salt", "tea", "timber")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def apply(prompts: Sequence[Prompt], kind: Kind, *, words: int, groups: int = 1, seed: int = 0) -> tuple[Prompt, ...]:
    """Turn a prompt set into a workload.

    Args:
        prompts: in the order in which they are sent.
        kind: `random`: each prompt is so many drawn words, its text is dropped. `shared_prefix`: so many words of
            filler stand before the prompts of a group, the same within it. `long_context`: before each, its own.
        words: words, not tokens: how many tokens they are, the tokenizer decides and each record's usage tells.
        groups: of `shared_prefix`; prompts go to them in turn.
        seed: of everything that is drawn.
    """
    made = []
    for number, prompt in enumerate(prompts):
        if kind == "random":
            text = random_text(words, f"{seed}/{prompt.id}")
            made.append(Prompt(id=prompt.id, category="random", prompt=text, max_tokens=prompt.max_tokens))
            continue
        part = f"group {number % groups}" if kind == "shared_prefix" else prompt.id
        made.append(_behind(filler(words, f"{seed}/{part}"), prompt))
    return tuple(made)


def random_text(words: int, seed: str) -> str:
    """Words of drawn syllables: no language, no sense."""
    draw = random.Random(seed)  # noqa: S311 - a workload, not a secret
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    return " ".join("".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(words))


def filler(words: int, seed: str) -> str:
    """Exactly so many words of short sentences about a harbour's stores."""
    draw = random.Random(seed)  # noqa: S311 - a workload, not a secret
    found: list[str] = []
    while len(found) < words:
        place, other = draw.sample(_PLACES, 2)
        sentence = (
            f"On {draw.choice(_DAYS)} the store in {place} held {draw.randint(2, 999)} crates of {draw.choice(_GOODS)} "
            f"and sent {draw.randint(2, 99)} of them to {other}."
        )
        found += sentence.split(" ")
    return " ".join(found[:words])


def _behind(text: str, prompt: Prompt) -> Prompt:
    """The prompt with text before its first message of the user."""
    if prompt.messages is None:
        return msgspec.structs.replace(prompt, prompt=f"{text}\n\n{prompt.prompt}")
    at = next(number for number, message in enumerate(prompt.messages) if message.role == "user")
    messages = list(prompt.messages)
    messages[at] = Message(role="user", content=f"{text}\n\n{messages[at].content}")
    return msgspec.structs.replace(prompt, messages=tuple(messages))
