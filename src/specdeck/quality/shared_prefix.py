"""Requests that share long prefixes, warm, each compared with its own cold answer.

Catches the class of faults in which prefix caching, recurrent state and a drafter disagree: wrong, empty or repeated
answers on shared prefixes that survive until a restart. Prefixes end at block boundaries and one token either side.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from specdeck.quality.asking import gather
from specdeck.quality.check import ALPHA, NotApplicable
from specdeck.quality.divergence import token_ids
from specdeck.quality.loops import loop_period
from specdeck.quality.perplexity import DEFAULT_TEXTS
from specdeck.quality.texts import load_documents
from specdeck.results.quality import CheckResult
from specdeck.results.schema import Strict
from specdeck.stats.proportion import excess, wilson

if TYPE_CHECKING:
    from specdeck.quality.check import Job, Verdict
    from specdeck.recipe import Recipe

MAX_TOKENS = 32
QUICK_LENGTHS, LENGTHS = (0, 1), (-1, 0, 1)
QUICK_QUESTIONS, QUESTIONS = 4, 8
BLOCKS = 2
DEFAULT_BLOCK = 16


class Probe(Strict, frozen=True, kw_only=True):
    """One question after one prefix: token ids of its answers.

    Attributes:
        prefix: tokens of the shared prefix.
        cold: asked alone with an empty cache.
        floor: asked twice more with an empty cache, among others: how much batching alone changes.
        warm: asked with the prefix in the cache, alone and then among others.
    """

    prefix: int
    question: str
    cold: tuple[int, ...]
    floor: tuple[tuple[int, ...], ...]
    warm: tuple[tuple[int, ...], ...]


class Seen(Strict, frozen=True, kw_only=True):
    """All probes, and prompt tokens asked and found in the cache during the warm passes (None: not counted)."""

    block_size: int
    probes: tuple[Probe, ...]
    queries: int | None
    hits: int | None


class SharedPrefix:
    """Compares warm answers with cold ones, against what batching alone changes."""

    name = "shared_prefix"
    title = "answers from a warm prefix cache against cold ones"
    seen = Seen
    death: Verdict = "fail"

    async def observe(self, job: Job) -> Seen:
        """Ask each question cold, cold in a batch twice, warm, and warm interleaved at concurrency."""
        asker, before = job.asker, await job.asker.snapshot()
        if before.kv_cache is not None and before.kv_cache.enable_prefix_caching is False:
            raise NotApplicable("the server has no prefix cache")
        block = (before.kv_cache.block_size if before.kv_cache else None) or DEFAULT_BLOCK
        text: list[int] = []
        longest = BLOCKS * block + max(LENGTHS)
        for document in load_documents(job.root, job.recipe.texts if job.recipe else DEFAULT_TEXTS):
            text += await asker.tokenize(document.context + document.text)
            if len(text) > longest:
                break
        chosen = job.prompts[: min(job.limit or QUESTIONS, QUICK_QUESTIONS if job.quick else QUESTIONS)]
        lengths = [min(len(text), BLOCKS * block + add) for add in (QUICK_LENGTHS if job.quick else LENGTHS)]
        asked: list[tuple[int, str, list[int]]] = []
        for prompt in chosen:
            question = await asker.tokenize(prompt.text)
            asked += [(length, prompt.id, text[:length] + question) for length in lengths]
        if job.max_model_len and max(len(tokens) for *_, tokens in asked) + MAX_TOKENS > job.max_model_len:
            raise NotApplicable(f"two blocks of {block} tokens and a question do not fit into {job.max_model_len}")
        done = job.counter("shared_prefix", 5 * len(asked))
        own = secrets.token_hex(8)  # no other client's, and no earlier check's, entries are hit

        async def answers(width: int, part: str | None) -> list[tuple[int, ...]]:
            replies = await gather(
                width,
                [
                    partial(
                        asker.ask,
                        {"prompt": tokens},
                        max_tokens=MAX_TOKENS,
                        cache_salt=f"{own}-{part}-{i}" if part else own,
                    )
                    for i, (_, _, tokens) in enumerate(asked)
                ],
                done,
            )
            return [token_ids(reply) for reply in replies]

        cold = await answers(1, "cold")
        floor = [await answers(job.width, f"floor{i}") for i in range(2)]
        start = await asker.snapshot()
        warm = [await answers(1, None), await answers(job.width, None)]
        counted = start.delta(await asker.snapshot())
        return Seen(
            block_size=block,
            probes=tuple(
                Probe(
                    prefix=length,
                    question=name,
                    cold=cold[i],
                    floor=tuple(answers[i] for answers in floor),
                    warm=tuple(answers[i] for answers in warm),
                )
                for i, (length, name, _) in enumerate(asked)
            ),
            queries=counted.prefix_cache_queries,
            hits=counted.prefix_cache_hits,
        )

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail when warm answers leave the cold ones significantly more often than cold ones in a batch do."""
        del base, recipe
        probes, n = seen.probes, len(seen.probes)
        floor = [any(answer != p.cold for answer in p.floor) for p in probes]
        warm = [any(answer != p.cold for answer in p.warm) for p in probes]
        looped = [p for p in probes if any(map(loop_period, p.warm)) and not any(map(loop_period, (p.cold, *p.floor)))]
        empty = [p for p in probes if p.cold and not all(p.warm)]
        p_value = excess(warm, floor)
        details: dict[str, Any] = {
            "block_size": seen.block_size,
            "different_warm": [f"{p.question} after {p.prefix}" for p, d in zip(probes, warm, strict=True) if d],
            "different_cold_in_a_batch": [
                f"{p.question} after {p.prefix}" for p, d in zip(probes, floor, strict=True) if d
            ],
            "looped_warm": [f"{p.question} after {p.prefix}" for p in looped],
            "p": p_value,
            "tokens_asked": seen.queries,
            "tokens_from_cache": seen.hits,
        }
        reason = None
        verdict: Verdict = "pass"
        if p_value < ALPHA or empty:
            verdict = "fail"
            reason = (
                f"with the prefix in the cache {sum(warm)} of {n} answers differ from the cold ones (cold in a batch: "
                f"{sum(floor)}, p = {p_value:.2g}; empty: {len(empty)}, looping: {len(looped)}): what the prefix cache "
                "holds is not what was computed. Fix: serve with enable_prefix_caching: false"
            )
        elif not seen.hits:
            verdict = "unmeasurable"
            reason = "nothing was found in the prefix cache, so warm answers were cold. Fix: use longer texts"
        return CheckResult(
            check=self.name,
            arm=arm,
            verdict=verdict,
            n=n,
            value=(n - sum(warm)) / n,
            unit="share of warm answers that are the cold ones",
            interval=wilson(n - sum(warm), n),
            reference=(n - sum(floor)) / n,
            reason=reason,
            details=details,
        )
