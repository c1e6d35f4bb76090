"""Greedy texts and warm answers: what differs beyond the floor fails, what the floor explains does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specdeck.quality import divergence, shared_prefix
from specdeck.quality.loops import loop_period

if TYPE_CHECKING:
    from specdeck.results.quality import CheckResult

TEXT = tuple(range(40))


def answers(changed: int = 0, floor: int = 0, loops: int = 0, n: int = 30) -> divergence.Seen:
    """Answers of which some differ alone and together (`changed`), only together (`floor`), or end in a loop."""
    found = []
    for i in range(n):
        alone = (*TEXT[:12], 99, *TEXT[13:]) if i < changed else TEXT
        alone = (*TEXT[:10], *([7] * 30)) if i < loops else alone
        found.append(
            divergence.Answer(
                prompt_id=f"p{i}",
                alone=alone,
                together=(98, *alone[1:]) if i < floor else alone,
                chosen=tuple(map(str, alone)),
                top=tuple({str(token): -0.1, "99": -2.4} for token in alone),
            )
        )
    return divergence.Seen(width=4, answers=tuple(found))


def judged(ours: divergence.Seen, base: divergence.Seen | None, arm: str = "mtp") -> CheckResult:
    return divergence.Divergence().judge(arm, ours, base, None)


def test_equal_texts_pass_with_their_interval() -> None:
    result = judged(answers(), answers())
    assert (result.verdict, result.value, result.n) == ("pass", 1.0, 30)
    assert result.interval == pytest.approx((0.8865, 1.0), abs=1e-3)


def test_more_differences_than_the_floor_fail_with_place_and_margin() -> None:
    result = judged(answers(changed=9), answers())
    assert result.verdict == "fail"
    assert result.value == 21 / 30
    first = result.details["differences"][0]
    assert (first["prompt_id"], first["token"], first["ours"], first["theirs"]) == ("p0", 12, "99", "12")
    assert first["margin"] == pytest.approx(2.3)
    assert "at token 12" in (result.reason or "")


def test_a_few_differences_and_as_many_as_the_floor_are_no_failure() -> None:
    assert judged(answers(changed=4), answers()).verdict == "pass"
    assert judged(answers(changed=9), answers(floor=9)).verdict == "pass"


def test_answers_that_differ_only_in_a_batch_fail_too() -> None:
    assert judged(answers(floor=12), answers()).verdict == "fail"


def test_loops_that_the_baseline_does_not_have_are_named() -> None:
    result = judged(answers(loops=9), answers())
    assert result.verdict == "fail"
    assert "end in a loop" in (result.reason or "")
    assert result.details["loops"] == [f"p{i}" for i in range(9)]


def test_an_arm_without_the_baseline_is_not_judged_and_the_baseline_tells_its_floor() -> None:
    assert judged(answers(), None).verdict == "unmeasurable"
    result = judged(answers(floor=3), None, "none")
    assert (result.verdict, result.value) == ("pass", 27 / 30)


@pytest.mark.parametrize(
    ("tokens", "period"),
    [
        ([5] * 24, 1),
        ([1, 2, 3] * 8, 3),
        ([*range(50), *([1, 2] * 12)], 2),
        ([5] * 23, None),
        (list(range(100)), None),
        ([*([5] * 40), 6], None),
        ([*range(20)] * 3, None),
        ([], None),
    ],
)
def test_a_loop_is_an_end_that_repeats_long_enough(tokens: list[int], period: int | None) -> None:
    assert loop_period(tokens) == period


def probes(wrong: int = 0, floor: int = 0, empty: int = 0, hits: int | None = 512) -> shared_prefix.Seen:
    """24 probes of which some answer otherwise when warm, in a cold batch, or not at all when warm."""
    found = []
    for i in range(24):
        warm = (9, 9) if i < wrong else () if i < empty else TEXT
        found.append(
            shared_prefix.Probe(
                prefix=256,
                question=f"q{i}",
                cold=TEXT,
                floor=(TEXT, (8,) if i < floor else TEXT),
                warm=(TEXT, warm),
            )
        )
    return shared_prefix.Seen(block_size=128, probes=tuple(found), queries=1000, hits=hits)


def warm(seen: shared_prefix.Seen) -> CheckResult:
    return shared_prefix.SharedPrefix().judge("dflash2", seen, None, None)


def test_warm_answers_that_are_the_cold_ones_pass() -> None:
    assert warm(probes()).verdict == "pass"


def test_wrong_warm_answers_fail_and_name_the_prefix_cache() -> None:
    result = warm(probes(wrong=10))
    assert result.verdict == "fail"
    assert "enable_prefix_caching: false" in (result.reason or "")
    assert result.details["different_warm"][0] == "q0 after 256"


def test_what_batching_changes_by_itself_is_no_fault_of_the_cache() -> None:
    assert warm(probes(wrong=10, floor=10)).verdict == "pass"


def test_one_empty_warm_answer_is_enough() -> None:
    assert warm(probes(empty=1)).verdict == "fail"


@pytest.mark.parametrize("hits", [0, None])
def test_a_cache_that_found_nothing_was_not_tested(hits: int | None) -> None:
    assert warm(probes(hits=hits)).verdict == "unmeasurable"
