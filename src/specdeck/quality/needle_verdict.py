"""What answers at several context lengths mean: what `none` finds and an arm does not, and what is lost with length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.quality.check import ALPHA, BASELINE, NOT_APPLICABLE
from specdeck.quality.lengths import acceptance_length, accepted_ratio
from specdeck.results.quality import CheckResult
from specdeck.stats.bootstrap import cluster_interval
from specdeck.stats.proportion import excess, wilson

if TYPE_CHECKING:
    from specdeck.quality.check import Verdict
    from specdeck.quality.needle import Placed, Seen

LOST_DRAFTS = 0.5
"""Accepted drafts a step, as a share of those at the shortest context, below which they count as lost."""


def judge_needles(check: str, arm: str, seen: Seen, base: Seen | None) -> CheckResult:
    """Judge one arm; `base` is what the arm `none` answered."""
    n, right = len(seen.placed), sum(one.right for one in seen.placed)
    lengths = sorted({one.length for one in seen.placed})
    details: dict[str, Any] = {
        "kind": seen.kind,
        "drafter_table": seen.table,
        "lengths": [_row(length, seen) for length in lengths],
        "missed": [_place(one) for one in seen.placed if not one.right],
    }
    # A model of its own kind of questions reads a conversation as it never did in training: only `none` tells.
    problems = _lost_drafts(seen, lengths) if seen.kind == "needle" else []
    reference = None
    if base is not None:
        theirs = {_key(one): one for one in base.placed}
        pairs = [(one, theirs[_key(one)]) for one in seen.placed if _key(one) in theirs]
        p = excess([not ours.right for ours, _ in pairs], [not other.right for _, other in pairs])
        details["p"] = p
        reference = sum(other.right for _, other in pairs) / len(pairs) if pairs else None
        if p < ALPHA:
            problems.append(
                f"{sum(ours.right for ours, _ in pairs)} of {len(pairs)} answers are right, the arm none's are in "
                f"{sum(other.right for _, other in pairs)} (p = {p:.2g}): {_where(seen)}. Fix: ask this arm again "
                "without prefix caching, then without its overlays"
            )
    elif seen.kind == "needle":
        problems += _lost_with_length(seen, lengths)
    verdict, note = _verdict(arm, seen, base, problems, lengths)
    if note and verdict == "unmeasurable" and arm == BASELINE:
        details[NOT_APPLICABLE] = True
    return CheckResult(
        check=check,
        arm=arm,
        verdict=verdict,
        n=n,
        value=right / n if n else None,
        unit="share of right answers",
        interval=wilson(right, n),
        reference=reference,
        reason="; ".join(problems) or note,
        details=details,
    )


def _verdict(
    arm: str, seen: Seen, base: Seen | None, problems: list[str], lengths: list[int]
) -> tuple[Verdict, str | None]:
    if problems:
        return "fail", None
    shortest = [one.right for one in seen.placed if one.length == lengths[0]]
    if base is None and not any(shortest):
        return "unmeasurable", (
            f"no answer is right at {lengths[0]} tokens already: this model cannot do it, so length was not tested"
        )
    if base is None and arm != BASELINE:
        return "unmeasurable", "the arm none was not observed. Fix: check it in the same run (--arm none)"
    return "pass", None


def _lost_drafts(seen: Seen, lengths: list[int]) -> list[str]:
    """Lengths from which on drafts are accepted significantly and much less often than at the shortest one."""
    first = {(one.depth, one.number): one for one in seen.placed if one.length == lengths[0]}
    for length in lengths[1:]:
        rows = [
            (one.accepted or 0, one.steps, first[key].accepted or 0, first[key].steps)
            for one in seen.placed
            if one.length == length and (key := (one.depth, one.number)) in first and one.steps and first[key].steps
        ]
        sums = np.array(rows, dtype=np.float64).reshape(len(rows), 4)
        interval = cluster_interval(sums, accepted_ratio)
        if interval is not None and interval.hi < LOST_DRAFTS:
            share = float(accepted_ratio(sums.sum(axis=0, keepdims=True))[0])
            return [
                f"from {length:,} tokens on a step accepts {share:.2g} times the drafts it accepts at {lengths[0]:,} "
                f"(at most {interval.hi:.2g}): the drafter does not read that far. Fix: check its "
                "max_position_embeddings, sliding_window and overlay, and whether the checkpoint's drafts fail there"
            ]
    return []


def _lost_with_length(seen: Seen, lengths: list[int]) -> list[str]:
    """Lengths at which the server misses significantly more than at the shortest one."""
    first = {(one.depth, one.number): one.right for one in seen.placed if one.length == lengths[0]}
    for length in lengths[1:]:
        pairs = [
            (one.right, first[one.depth, one.number])
            for one in seen.placed
            if one.length == length and (one.depth, one.number) in first
        ]
        p = excess([not ours for ours, _ in pairs], [not other for _, other in pairs])
        if p < ALPHA / (len(lengths) - 1):
            return [
                f"from {length:,} tokens on {sum(ours for ours, _ in pairs)} of {len(pairs)} facts are found, at "
                f"{lengths[0]:,} tokens {sum(other for _, other in pairs)} (p = {p:.2g}): this context is not served. "
                "Fix: lower serve.max_model_len below it, or check the target's rope parameters and overlay"
            ]
    return []


def _row(length: int, seen: Seen) -> dict[str, Any]:
    own = [one for one in seen.placed if one.length == length]
    return {
        "length": length,
        "prompt_tokens": round(sum(one.prompt_tokens for one in own) / len(own)),
        "n": len(own),
        "right": sum(one.right for one in own),
        "by_depth": {
            f"{depth:g}": f"{sum(one.right for one in part)} of {len(part)}"
            for depth in sorted({one.depth for one in own if one.depth is not None})
            if (part := [one for one in own if one.depth == depth])
        },
        "acceptance_length": acceptance_length([(one.accepted, one.steps) for one in own]),
        "beyond_table": None if seen.table is None else max(one.prompt_tokens for one in own) > seen.table,
    }


def _key(one: Placed) -> tuple[int, float | None, int]:
    return one.length, one.depth, one.number


def _place(one: Placed) -> dict[str, Any]:
    return {"length": one.length, "depth": one.depth, "number": one.number, "said": one.said}


def _where(seen: Seen) -> str:
    missed = [one for one in seen.placed if not one.right]
    if not missed:
        return "none missed"
    one = missed[0]
    depth = "" if one.depth is None else f" at depth {one.depth:g}"
    return f"the first miss is at {one.prompt_tokens:,} tokens{depth}, which said {one.said[:60]!r}"
