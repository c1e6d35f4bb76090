"""Acceptance length over the recipe's prompts against what the recipe expects: what a broken drafter shows first.

A drafter with scrambled weights, a wrong tap or of another revision leaves the text as it is and only drafts badly.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.quality.asking import gather
from specdeck.quality.check import NotApplicable, prompt_part
from specdeck.quality.lengths import lengths
from specdeck.results.quality import CheckResult
from specdeck.results.schema import Strict
from specdeck.stats.bootstrap import cluster_interval

if TYPE_CHECKING:
    from specdeck.quality.check import Job, Verdict
    from specdeck.recipe import Recipe

MAX_TOKENS = 64
QUICK, FULL = 12, 60


class Drafted(Strict, frozen=True, kw_only=True):
    """One prompt: verification steps and draft tokens accepted in them."""

    prompt_id: str
    category: str
    steps: int
    accepted: int


class Seen(Strict, frozen=True, kw_only=True):
    """Every prompt that was drafted for, asked greedily one after another."""

    prompts: tuple[Drafted, ...]


class Acceptance:
    """Asks the recipe's prompts and reads acceptance from the answers' own payloads."""

    name = "acceptance"
    title = "acceptance length against what the recipe expects"
    seen = Seen
    death: Verdict = "fail"

    async def observe(self, job: Job) -> Seen:
        """Ask each prompt greedily, one at a time."""
        spec = job.recipe.arms.get(job.arm) if job.recipe else None
        if spec is not None and spec.method is None:
            raise NotApplicable("this arm has no drafter")
        prompts = job.prompts[: min(job.limit or FULL, QUICK if job.quick else FULL)]
        done = job.counter("acceptance", len(prompts))
        replies = await gather(
            1, [partial(job.asker.ask, prompt_part(prompt), max_tokens=MAX_TOKENS) for prompt in prompts], done
        )
        drafted = [(p, r) for p, r in zip(prompts, replies, strict=True) if r.steps]
        if not drafted:
            raise NotApplicable(
                "the answers carry no acceptance. Fix: serve with --per-request-spec-decode-metrics summary"
            )
        return Seen(
            prompts=tuple(
                Drafted(prompt_id=p.id, category=p.category, steps=r.steps or 0, accepted=r.accepted or 0)
                for p, r in drafted
            )
        )

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail when the whole 95 % interval lies below the expected least. A longer one than expected is no fault."""
        del base
        sums = np.array([(p.accepted, p.steps) for p in seen.prompts], dtype=np.float64)
        value = float(lengths(sums.sum(axis=0, keepdims=True))[0])
        interval = cluster_interval(sums, lengths)
        expected = recipe.expect.acceptance_length.get(arm) if recipe else None
        least = expected.min if expected else None
        details: dict[str, Any] = {
            "drafts": int(sums[:, 1].sum()),
            "categories": {
                name: float(lengths(part.sum(axis=0, keepdims=True))[0])
                for name in sorted({p.category for p in seen.prompts})
                if (part := sums[[p.category == name for p in seen.prompts]]).size
            },
            "expected": {"min": expected.min, "max": expected.max, "source": expected.source} if expected else None,
        }
        highest = interval.hi if interval else value
        reason = None
        if least is None:
            reason = f"the recipe expects no acceptance length of {arm}. Fix: add expect.acceptance_length.{arm}.min"
        elif highest < least:
            reason = (
                f"acceptance length is {value:.3g} (at most {highest:.3g}), below the expected {least:g} "
                f"({expected.source if expected else ''}): the drafter does not fit the target. Fix: check its "
                "revision and hashes, its taps (dflash_config.target_layer_ids) and that the V2 runner loads it"
            )
        return CheckResult(
            check=self.name,
            arm=arm,
            verdict="unmeasurable" if least is None else "fail" if highest < least else "pass",
            n=len(seen.prompts),
            value=value,
            unit="tokens a step",
            interval=(interval.lo, interval.hi) if interval else None,
            reference=least,
            reason=reason,
            details=details,
        )
