"""The grammar: held-out and training problems by seed, and whether an answer is right. Plain Python, no torch.

A problem belongs to the held-out split when a hash of its question says so (one in ten), so the splits are
disjoint whatever the seeds.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import chat_turns, code_problems, math_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

Split = Literal["train", "held-out"]
CATEGORIES = ("math", "code", "chat")
_BUILDERS = {
    "math": math_problems.BUILDERS,
    "code": code_problems.BUILDERS,
    "chat": chat_turns.BUILDERS,
}
_HELD_OUT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its short answer (what `check` looks for) and a full right reply (training text)."""

    id: str
    category: str
    question: str
    answer: str
    reply: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """The question as chat messages."""
        return [{"role": "user", "content": self.question}]


def split_of(question: str) -> Split:
    """The split that a question belongs to, by a hash of its text."""
    digest = hashlib.sha256(question.encode()).digest()
    return "held-out" if int.from_bytes(digest[:4], "big") < _HELD_OUT_SHARE * 2**32 else "train"


def stream(split: Split, seed: int, category: str | None = None) -> Iterator[Problem]:
    """Endless problems of `split`, categories in turn (or only `category`), the same for the same seed."""
    rng = random.Random(f"{split} {seed}")
    made = dict.fromkeys(CATEGORIES, 0)
    while True:
        for name in (category,) if category else CATEGORIES:
            while True:
                question, answer, reply = rng.choice(_BUILDERS[name])(rng)
                if split_of(question) == split:
                    break
            made[name] += 1
            yield Problem(f"{name}-{made[name]:02d}", name, question, answer, reply)


def problems(split: Split, seed: int, n: int, category: str | None = None) -> list[Problem]:
    """The first `n` different problems of `stream`."""
    found: list[Problem] = []
    seen: set[str] = set()
    for problem in stream(split, seed, category):
        if len(found) == n:
            break
        if problem.question not in seen:
            seen.add(problem.question)
            found.append(problem)
    return found


def check_answer(category: str, answer: str, text: str) -> bool:
    """Whether `text` is a right reply: math by its last number and noun, code by running it, chat by its facts.

    Raises:
        ValueError: `category` is not one of CATEGORIES.
    """
    text = text.strip()
    if category == "math":
        number, noun = answer.split(" ", 1)
        numbers = re.findall(r"\d+", text)
        return bool(numbers) and numbers[-1] == number and re.search(rf"\b{number} {noun}\b", text) is not None
    if category == "code":
        return code_problems.same_function(text, answer)
    if category == "chat":
        return all(fact in text for fact in answer.split("; "))
    raise ValueError(f"unknown category {category!r}")


def check(problem: Problem, text: str) -> bool:
    """Whether `text` answers `problem`; see `check_answer`."""
    return check_answer(problem.category, problem.answer, text)
