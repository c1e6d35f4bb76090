"""Step times and break-even lengths on inputs small enough to compute by hand."""

from __future__ import annotations

import pytest
from support.runs import cell, payload, record, whole_run

from specdeck.results.schema import CounterDelta
from specdeck.stats.steps import break_even, step_time
from specdeck.stats.summary import summarize

PLAIN = [record(index=0, first=0.5, last=1.5, tokens=11), record("q", index=1, first=0.5, last=3.5, tokens=21)]
"""30 steps in 4 s."""
DRAFTED = [
    record(index=0, first=0.5, last=1.5, tokens=11, spec=payload(3, 3, 1, n=3)),
    record("q", index=1, first=0.5, last=2.5, tokens=10, spec=payload(2, 1, 3, n=3)),
]
"""6 steps in 3 s."""


def test_a_step_without_a_drafter_is_a_token_after_the_first() -> None:
    assert step_time([(cell(), PLAIN)], drafting=False).value == pytest.approx(4 / 30)


def test_a_step_with_a_drafter_is_one_of_the_payloads_steps() -> None:
    assert step_time([(cell("mtp"), DRAFTED)], drafting=True).value == pytest.approx(3 / 6)
    assert break_even([(cell("mtp"), DRAFTED)], [(cell(), PLAIN)]).value == pytest.approx(0.5 / (4 / 30))


def test_an_answer_of_one_token_has_no_step() -> None:
    with_one = [*PLAIN, record("r", index=2, first=0.5, last=0.5, tokens=1)]
    assert step_time([(cell(), with_one)], drafting=False).value == pytest.approx(4 / 30)
    assert step_time([(cell(), with_one[2:])], drafting=False).value is None


def test_without_payloads_the_counters_drafts_are_the_steps_and_without_those_nothing_is_known() -> None:
    silent = [record(index=0, first=0.5, last=1.5, tokens=11), record("q", index=1, first=0.5, last=2.5, tokens=10)]
    counted = step_time([(cell("mtp", counters=CounterDelta(drafts=6)), silent)], drafting=True)
    assert counted.value == pytest.approx(0.5)
    assert counted.interval is None
    assert step_time([(cell("mtp"), silent)], drafting=True).value is None
    assert break_even([(cell("mtp"), silent)], [(cell(), PLAIN)]).value is None


def test_an_unknown_number_of_tokens_makes_the_step_unknown() -> None:
    unknown = [*PLAIN, record("r", index=2, tokens=None)]
    assert step_time([(cell(), unknown)], drafting=False).value is None


def test_rounds_give_the_spread_and_six_prompts_an_interval() -> None:
    run, cells = whole_run(concurrency=(4,), rounds=3)
    summary = summarize(run, cells)
    row = {r.arm: r for r in summary.rows}
    mtp = row["mtp"]
    assert mtp.step_s.spread is not None
    assert mtp.step_s.value is not None
    assert mtp.step_s.spread.rounds == 3
    assert mtp.step_s.spread.min <= mtp.step_s.value <= mtp.step_s.spread.max
    assert mtp.break_even is not None
    assert mtp.break_even.value is not None
    assert mtp.break_even.value == pytest.approx(mtp.step_s.value / (row["none"].step_s.value or 1))
    assert mtp.break_even.interval is not None
    assert mtp.break_even.interval.lo <= mtp.break_even.value <= mtp.break_even.interval.hi
    assert row["none"].break_even is None


def test_a_baseline_that_drafts_gives_no_break_even() -> None:
    run, cells = whole_run(arms=("mtp", "dflash2"), baseline="mtp")
    for row in summarize(run, cells).rows:
        assert row.break_even is None or row.break_even.value is None
