"""Long texts of plain sentences with one fact hidden in them, the same for everyone, cut to a number of tokens.

No sentence comes twice and none holds a number of more than three digits: the hidden code is the only one that does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 20_261
BATCH = 64
"""Sentences that are tokenized together: a text of half a million tokens takes some hundred requests."""

_WHO = (
    "The gardener",
    "A ferry pilot",
    "The night porter",
    "My older cousin",
    "The clock maker",
    "A young baker",
    "The choir leader",
    "Our neighbour",
    "The map seller",
    "A retired nurse",
)
_DID = ("counted", "carried", "repaired", "sorted", "painted", "weighed", "returned", "wrapped", "borrowed", "polished")
_WHAT = ("lamps", "crates", "violins", "buckets", "letters", "anchors", "blankets", "mirrors", "ladders", "saddles")
_WHERE = (
    "behind the mill",
    "near the harbour",
    "in the upper hall",
    "under the bridge",
    "at the old station",
    "beside the orchard",
    "on the east terrace",
    "outside the chapel",
)
_WHEN = ("before the rain began", "while the bells rang", "after a long supper", "as the market closed", "at dawn")
PLACES = (
    "lighthouse",
    "granary",
    "observatory",
    "boathouse",
    "brewery",
    "archive",
    "greenhouse",
    "foundry",
    "windmill",
    "quarry",
)


class Tokenizer(Protocol):
    """What cuts a text: the server's own tokenizer."""

    async def tokenize(self, text: str) -> list[int]:
        """The token ids of a text."""


@dataclass(frozen=True)
class Needle:
    """A fact to hide, and what a right answer contains."""

    place: str
    code: str

    @property
    def sentence(self) -> str:
        """The fact."""
        return f"The door code of the {self.place} is {self.code}."

    @property
    def question(self) -> str:
        """What is asked after the text. The sentences after the code give a drafter something to draft."""
        return (
            f"What is the door code of the {self.place}? Begin with the code. Then say in three sentences what the "
            "text above is about."
        )


def needle(number: int) -> Needle:
    """The needle of that number: six digits, never a round figure."""
    code = random.Random(f"{SEED} needle {number}").randint(100_001, 999_999)  # noqa: S311 - not for secrecy
    return Needle(PLACES[number % len(PLACES)], str(code))


@lru_cache(maxsize=100_000)
def sentence(number: int) -> str:
    """The filler sentence of that number. The count in it and the order of words make it one of its kind."""
    rng = random.Random(f"{SEED} filler {number}")  # noqa: S311
    who, did, what, where, when = (rng.choice(words) for words in (_WHO, _DID, _WHAT, _WHERE, _WHEN))
    return f"{who} {did} {rng.randint(2, 999)} {what} {where} {when}, on page {number % 1000} of book {number // 1000}."


async def sizes(tokenizer: Tokenizer, tokens: int) -> list[int]:
    """Tokens of the filler text after each BATCH of sentences, until there are at least `tokens`.

    Raises:
        AskError: the server does not tokenize.
    """
    found = [0]
    while found[-1] < tokens:
        first = (len(found) - 1) * BATCH
        batch = " " + " ".join(sentence(i) for i in range(first, first + BATCH))
        found.append(found[-1] + len(await tokenizer.tokenize(batch)))
    return found


def sentences_for(tokens: int, totals: Sequence[int]) -> int:
    """How many sentences have `tokens` tokens, but for a few, given what `sizes` found."""
    tokens = max(tokens, 0)
    full = max(i for i, total in enumerate(totals) if total <= tokens)
    if full + 1 == len(totals):
        return full * BATCH
    return full * BATCH + BATCH * (tokens - totals[full]) // (totals[full + 1] - totals[full])


def haystack(count: int, hidden: Needle, depth: float) -> str:
    """`count` sentences with the needle at `depth`: 0 before the first, 1 after the last."""
    at = round(depth * count)
    return " ".join([*map(sentence, range(at)), hidden.sentence, *map(sentence, range(at, count))])
