"""Census of greedy texts: where an arm's answer leaves that of the arm `none`, and whether more often than by noise.

Greedy output is not batch-invariant: sums in another order let near ties fall the other way. The floor is therefore
how often `none` in a batch leaves `none` alone on the same prompts; an arm fails only when it leaves more often than
that, paired by prompt (exact McNemar, one-sided).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from specdeck.quality.asking import TOP, AskError, gather
from specdeck.quality.check import ALPHA, prompt_part
from specdeck.quality.loops import loop_period
from specdeck.results.quality import CheckResult
from specdeck.results.schema import Strict
from specdeck.stats.proportion import excess, wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.quality.asking import Reply
    from specdeck.quality.check import Job, Verdict
    from specdeck.recipe import Recipe

MAX_TOKENS = 96
QUICK, FULL = 12, 80


class Answer(Strict, frozen=True, kw_only=True):
    """Token ids of one prompt's greedy answer, asked alone and among others.

    Attributes:
        chosen: texts of the tokens of `alone`.
        top: at each token of `alone`, candidate text to log probability (natural).
    """

    prompt_id: str
    alone: tuple[int, ...]
    together: tuple[int, ...]
    chosen: tuple[str, ...] = ()
    top: tuple[dict[str, float], ...] = ()


class Seen(Strict, frozen=True, kw_only=True):
    """The answers to the recipe's prompts; `width` of them in flight in the second pass."""

    width: int
    answers: tuple[Answer, ...]


class Divergence:
    """Asks the recipe's prompts greedily, each alone and then together."""

    name = "divergence"
    title = "greedy text against the arm without a drafter"
    seen = Seen
    death: Verdict = "fail"

    async def observe(self, job: Job) -> Seen:
        """Ask every prompt alone, with candidates, then all of them `width` at a time."""
        prompts = job.prompts[: min(job.limit or FULL, QUICK if job.quick else FULL)]
        done = job.counter("divergence", 2 * len(prompts))
        passes: list[list[Reply]] = []
        for width, top in ((1, TOP), (job.width, 0)):
            asks = [partial(job.asker.ask, prompt_part(p), max_tokens=MAX_TOKENS, top=top) for p in prompts]
            passes.append(await gather(width, asks, done))
        return Seen(
            width=job.width,
            answers=tuple(
                Answer(
                    prompt_id=prompt.id,
                    alone=token_ids(alone),
                    together=token_ids(together),
                    chosen=alone.chosen or (),
                    top=alone.top or (),
                )
                for prompt, alone, together in zip(prompts, *passes, strict=True)
            ),
        )

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail when the arm leaves `none`'s text, or loops, on significantly more prompts than `none` itself."""
        del recipe
        theirs = {answer.prompt_id: answer for answer in (base or seen).answers}
        pairs = [(ours, theirs[ours.prompt_id]) for ours in seen.answers if ours.prompt_id in theirs]
        n = len(pairs)
        floor = [other.together != other.alone for _, other in pairs]
        alone = [ours.alone != other.alone for ours, other in pairs]
        together = [ours.together != other.alone for ours, other in pairs]
        loops = [_loops(ours) for ours, _ in pairs]
        details: dict[str, Any] = {
            "identical_alone": n - sum(alone),
            "identical_together": n - sum(together),
            "identical_none_together": n - sum(floor),
            "width": seen.width,
            "differences": [_difference(o, t) for o, t in pairs if o.alone != t.alone],
            "loops": [ours.prompt_id for (ours, _), looped in zip(pairs, loops, strict=True) if looped],
        }
        problems = []
        if base is not None:
            # Two comparisons of the same prompts: each may be wrong half as often.
            for what, differs in (("alone", alone), (f"{seen.width} at a time", together)):
                p = excess(differs, floor)
                details[f"p_{'alone' if differs is alone else 'together'}"] = p
                if p < ALPHA / 2:
                    problems.append(
                        f"asked {what}, {sum(differs)} of {n} greedy texts differ from the arm none's; none's own "
                        f"differ in {sum(floor)} (p = {p:.2g}): {_first(details['differences'])}. Fix: ask both arms "
                        "again without prefix caching, then with a shorter draft, to see what changes the text"
                    )
            p = excess(loops, [_loops(other) for _, other in pairs])
            details["p_loops"] = p
            if p < ALPHA:
                problems.append(f"{sum(loops)} of {n} answers end in a loop, which the arm none's do not (p = {p:.2g})")
        unjudged = base is None and arm != "none"
        same = n - sum(together if base is None else alone)
        return CheckResult(
            check=self.name,
            arm=arm,
            verdict="unmeasurable" if unjudged or not n else "fail" if problems else "pass",
            n=n,
            value=same / n if n else None,
            unit="share of identical texts",
            interval=wilson(same, n),
            reference=(n - sum(floor)) / n if n and base is not None else None,
            reason="; ".join(problems)
            or ("the arm none was not observed. Fix: check it in the same run (--arm none)" if unjudged else None)
            or (None if n else "no prompt was asked of both arms"),
            details=details,
        )


def token_ids(reply: Reply) -> tuple[int, ...]:
    """The ids of an answer's tokens.

    Raises:
        AskError: the server does not tell them.
    """
    if reply.tokens is None:
        raise AskError("odd", "the server tells no token ids (return_token_ids): vLLM 0.28 or later is needed")
    return reply.tokens


def first_difference(a: Sequence[int], b: Sequence[int]) -> int:
    """Index of the first token that differs; the shorter's length where one continues the other."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _difference(ours: Answer, theirs: Answer) -> dict[str, Any]:
    """Where the texts part, what each side wrote, and how far apart `none` held the two, in nats.

    Where ours is not among `none`'s candidates `margin` is None, and they are at least `at_least` apart.
    """
    at = first_difference(ours.alone, theirs.alone)
    found: dict[str, Any] = {"prompt_id": ours.prompt_id, "token": at, "margin": None, "at_least": None}
    found["ours"] = ours.chosen[at] if at < len(ours.chosen) else None
    found["theirs"] = theirs.chosen[at] if at < len(theirs.chosen) else None
    if found["theirs"] is not None and at < len(theirs.top):
        candidates = theirs.top[at]
        best = candidates[found["theirs"]]
        if found["ours"] in candidates:
            found["margin"] = best - candidates[found["ours"]]
        else:
            found["at_least"] = best - min(candidates.values())
    return found


def _first(differences: Sequence[dict[str, Any]]) -> str:
    if not differences:
        return "only when asked together"
    one = max(differences, key=lambda d: d["margin"] or d["at_least"] or 0.0)
    margin = f"{one['margin']:.3g}" if one["margin"] is not None else f"at least {one['at_least'] or 0:.3g}"
    return f"in {one['prompt_id']} at token {one['token']}, {one['ours']!r} for {one['theirs']!r}, {margin} nats apart"


def _loops(answer: Answer) -> bool:
    return loop_period(answer.alone) is not None or loop_period(answer.together) is not None
