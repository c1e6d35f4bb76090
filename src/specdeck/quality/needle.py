"""A fact hidden in a long text: whether the answer has it, and how well drafts are accepted, by length of the context.

Lengths go up to what the server takes, and to both sides of the end of the drafter's own position table where the
context goes beyond it. A model that only knows questions of its own kind (`questions` of the recipe) is asked one of
them behind longer and longer conversations instead: that has no depth, and finding something in a text is not tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from specdeck.quality import haystack
from specdeck.quality.asking import gather
from specdeck.quality.check import NotApplicable, thinking_off
from specdeck.quality.needle_verdict import judge_needles
from specdeck.quality.questions import load_questions
from specdeck.results.schema import Strict
from specdeck.rules.gather import gather as known_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from specdeck.quality.check import Job, Verdict
    from specdeck.quality.questions import Question
    from specdeck.recipe import Recipe
    from specdeck.results.quality import CheckResult

MAX_TOKENS = 96
MARGIN = 64
"""Tokens kept free beside question and answer: templates and cuts between sentences take some."""
SHORTEST, SHORTEST_OWN, MOST_LENGTHS, FAR = 256, 48, 6, 16_384
DEPTHS = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Deepest last: what comes before the needle is then still in the prefix cache, and a length costs one prefill."""
NEEDLES = 2
TURNS_ASKED = 6
BEYOND = 1024
"""How far past the end of the drafter's table the prompt of the second length there goes, in tokens."""


class Placed(Strict, frozen=True, kw_only=True):
    """One question.

    Attributes:
        length: tokens of the context that was asked for.
        prompt_tokens: of the whole prompt, as the server counted them.
        depth: where the needle lies, 0 at the start; None where there is none.
        number: which needle or question: the same at every length.
        said: beginning of the answer.
        steps: verification steps; None where the answer carries no acceptance.
    """

    length: int
    prompt_tokens: int
    depth: float | None
    number: int
    right: bool
    said: str
    steps: int | None
    accepted: int | None


class Seen(Strict, frozen=True, kw_only=True):
    """All questions, lengths rising; `table` is the end of the drafter's own position table where it was covered."""

    kind: str
    table: int | None
    placed: tuple[Placed, ...]


@dataclass(frozen=True)
class _Asked:
    """One question before it is asked; `right` is what its answer contains."""

    length: int
    depth: float | None
    number: int
    messages: list[dict[str, str]]
    right: str


class Needle:
    """Asks for what is hidden in contexts of several lengths."""

    name = "needle"
    title = "facts found in long contexts, and acceptance by context length"
    seen = Seen
    death: Verdict = "fail"

    async def observe(self, job: Job) -> Seen:
        """Ask at every length, one request at a time: a long context may take most of the cache."""
        if job.max_model_len is None:
            raise NotApplicable("the server does not say how long a context it takes")
        table = drafter_table(job)
        room = job.max_model_len - MAX_TOKENS - MARGIN
        own = job.recipe.questions if job.recipe else None
        lengths = context_lengths(room, table, SHORTEST_OWN if own else SHORTEST)
        if not lengths:
            raise NotApplicable(f"{job.max_model_len} tokens leave no room for a text, a question and an answer")
        each = max(1, job.limit // len(lengths)) if job.limit else None
        asked = (
            await _conversations(job, lengths, load_questions(job.root, own), each)
            if own
            else await _needles(job, lengths, each)
        )
        done = job.counter("needle", len(asked))
        options = thinking_off(job)
        replies = await gather(
            1, [partial(job.asker.ask, {"messages": a.messages}, max_tokens=MAX_TOKENS, **options) for a in asked], done
        )
        return Seen(
            kind="conversation" if own else "needle",
            table=table if table is not None and table < room else None,
            placed=tuple(
                Placed(
                    length=a.length,
                    prompt_tokens=reply.prompt_tokens,
                    depth=a.depth,
                    number=a.number,
                    right=is_right(a.right, reply.whole, last=own is not None),
                    said=reply.whole[:120],
                    steps=reply.steps,
                    accepted=reply.accepted,
                )
                for a, reply in zip(asked, replies, strict=True)
            ),
        )

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail when answers are lost that `none` gives, when facts are lost with length, or when drafts are."""
        del recipe
        return judge_needles(self.name, arm, seen, base)


def drafter_table(job: Job) -> int | None:
    """Positions that the arm's own drafter checkpoint has a table for, overlays left out; None: none, or not known."""
    arm = job.recipe.arms.get(job.arm) if job.recipe else None
    if job.recipe is None or arm is None or arm.method != "dflash":
        return None
    facts = known_facts(job.recipe, job.root).get("drafter")
    return facts.integer("max_position_embeddings") if facts else None


def context_lengths(room: int, table: int | None, shortest: int = SHORTEST) -> tuple[int, ...]:
    """Context lengths in tokens, rising: `room`, fractions of it, and both sides of the end of the drafter's table.

    The first of those two ends where the answer runs across the end of the table, the second beyond it.
    """
    step = 4 if room > FAR else 2
    found = {room // step**i for i in range(MOST_LENGTHS) if room // step**i >= shortest}
    if table is not None and table < room:
        found |= {table - MAX_TOKENS // 2, min(table + BEYOND, room)}
    return tuple(sorted(length for length in found if length >= shortest))


def is_right(wanted: str, text: str, *, last: bool) -> bool:
    """Whether the answer has the number: anywhere in it, or as the last of its numbers."""
    numbers = list(_numbers(text))
    return bool(numbers) and (numbers[-1] == wanted if last else wanted in numbers)


def _numbers(text: str) -> Iterator[str]:
    run = ""
    for character in f"{text} ":
        if character.isdigit():
            run += character
        elif run and character != ",":  # 123,456 is one number
            yield run
            run = ""


async def _needles(job: Job, lengths: Sequence[int], each: int | None) -> list[_Asked]:
    totals = await haystack.sizes(job.asker, max(lengths))
    asked: list[_Asked] = []
    for length in lengths:
        count = await _sentences(job, length, totals)
        places = [(depth, number) for number in range(NEEDLES) for depth in DEPTHS][:each]
        for place, (depth, number) in enumerate(sorted(places, reverse=True)):
            hidden = haystack.needle(number * len(DEPTHS) + place)
            text = haystack.haystack(count, hidden, depth)
            message = {"role": "user", "content": f"{text}\n\n{hidden.question}"}
            asked.append(_Asked(length, depth, number, [message], hidden.code))
    return asked


async def _sentences(job: Job, length: int, totals: Sequence[int]) -> int:
    """Sentences that make `length` tokens with needle and question: estimated, counted whole, and corrected."""
    hidden = haystack.needle(0)
    around = len(await job.asker.tokenize(f"{hidden.sentence} {hidden.question}"))
    count = haystack.sentences_for(length - around, totals)
    if count:
        found = len(await job.asker.tokenize(haystack.haystack(count, hidden, 1.0))) + around // 2
        count += (length - found) * count // found
    return count


async def _conversations(
    job: Job, lengths: Sequence[int], questions: Sequence[Question], each: int | None
) -> list[_Asked]:
    """The same last questions behind more and more earlier turns; no turn is one of the last questions."""
    last, turns = questions[: each or TURNS_ASKED], questions[each or TURNS_ASKED :]
    costs = [len(await job.asker.tokenize(f"{q.question}\n{q.worked}\n")) for q in turns]
    asked: list[_Asked] = []
    for length in lengths:
        for number, question in enumerate(last):
            messages: list[dict[str, str]] = []
            used = len(await job.asker.tokenize(question.question))
            # Other turns for every question, so that the prefix cache does not make the same text of them.
            for i in range(len(turns)):
                turn = (i + number * len(turns) // len(last)) % len(turns)
                used += costs[turn] + _TEMPLATE
                if used > length:
                    break
                messages += [
                    {"role": "user", "content": turns[turn].question},
                    {"role": "assistant", "content": turns[turn].worked},
                ]
            messages.append({"role": "user", "content": question.question})
            asked.append(_Asked(length, None, number, messages, question.number))
    return asked


_TEMPLATE = 12
"""Tokens that a chat template spends on a turn, about."""
