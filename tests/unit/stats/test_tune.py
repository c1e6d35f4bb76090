"""Predicting draft lengths: exact where the model holds, honest where it cannot know, right about a published sweep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from specdeck.paths import repo_root
from specdeck.report.draft_length import predictions, read_sweep
from specdeck.report.tune import sentence
from specdeck.results.schema import CounterDelta
from specdeck.stats.sample import Round, Sample
from specdeck.stats.tune import Arm, acceptance_by_length, advise

RATES = (0.8, 0.6, 0.4, 0.3, 0.2)
FIRST, TOKENS = 0.05, 61


def sample(n: int, step_s: float, *, prompts: int = 12, scatter: float = 0.0, concurrency: int = 1) -> Sample:
    """An arm that follows the model: prompt i emits TOKENS tokens in steps that accept by RATES, plus a scatter."""
    generator = np.random.default_rng(n)
    names = tuple(f"p{i:02d}" for i in range(prompts))
    keep = 1 + scatter * np.random.default_rng(0).standard_normal((prompts, 1, 1))
    rates = np.array(RATES[:n]).reshape(1, 1, -1) * keep if n else np.zeros((prompts, 1, 0))
    tokens = np.full((prompts, 1), float(TOKENS))
    steps = (tokens - 1) / (1 + rates.sum(axis=2))
    times = FIRST + steps * step_s * np.exp(scatter * generator.standard_normal((prompts, 1)))
    ones = np.ones((prompts, 1))
    sums = {
        "requests": ones, "tokens": tokens, "e2e_s": times, "ttft_n": ones, "ttft_log": np.full((prompts, 1),
        np.log(FIRST)), "tpot_n": ones, "tpot_log": ones, "steps": steps if n else np.full((prompts, 1), np.nan),
        "accepted": rates.sum(axis=2) * steps,
    }  # fmt: skip
    whole = Round(
        round=1, duration_s=float(times.sum() / concurrency), tokens=int(tokens.sum()), requests=prompts, failed=0,
        counters=CounterDelta(),
    )  # fmt: skip
    return Sample("arm", concurrency, names, (whole,), sums, rates * steps[:, :, None])


def tok_s(n: int, step_s: float) -> float:
    return TOKENS / (FIRST + (TOKENS - 1) / (1 + sum(RATES[:n])) * step_s)


def test_shorter_drafts_are_the_beginning_of_a_longer_one_and_longer_ones_keep_the_last_conditional_rate() -> None:
    found = acceptance_by_length([0.8, 0.6, 0.3], 5)
    assert found == pytest.approx([1.8, 2.4, 2.7, 2.85, 2.925])
    assert acceptance_by_length([0.5], 3) == pytest.approx([1.5, 1.75, 1.875])
    assert acceptance_by_length([0.5, 0.0], 4) == pytest.approx([1.5, 1.5, 1.5, 1.5])


def test_measured_lengths_come_back_exactly_and_those_between_follow_the_line_of_step_times() -> None:
    step = {0: 0.010, 1: 0.012, 3: 0.014, 5: 0.016}
    found = advise("mtp", 1, [Arm(n, sample(n, seconds)) for n, seconds in step.items()], 5)
    points = {point.n: point for point in found.points}
    for n, seconds in step.items():
        assert points[n].output_tok_s.value == pytest.approx(tok_s(n, seconds))
        assert points[n].measured_tok_s == pytest.approx(tok_s(n, seconds))
        assert points[n].basis == "measured"
    for n, seconds in ((2, 0.013), (4, 0.015)):
        assert points[n].step_s == pytest.approx(seconds)
        assert points[n].output_tok_s.value == pytest.approx(tok_s(n, seconds))
        assert (points[n].basis, points[n].step_basis) == ("predicted", "between")
        assert points[n].measured_tok_s is None


def test_one_measured_length_gives_bounds_that_contain_both_a_fixed_and_a_proportional_cost() -> None:
    found = advise("dflash", 1, [Arm(0, sample(0, 0.010)), Arm(5, sample(5, 0.020))], 5)
    point = next(p for p in found.points if p.n == 2)
    assert point.step_basis == "bounds"
    assert point.step_s == pytest.approx((0.014 + 0.020) / 2)
    assert point.output_tok_s.interval is not None
    assert point.output_tok_s.interval.lo == pytest.approx(tok_s(2, 0.020))
    assert point.output_tok_s.interval.hi == pytest.approx(tok_s(2, 0.014))


def test_without_a_second_length_and_without_the_plain_arm_only_acceptance_is_predicted() -> None:
    found = advise("dflash", 1, [Arm(5, sample(5, 0.020))], 5)
    point = next(p for p in found.points if p.n == 2)
    assert point.acceptance_length.value == pytest.approx(1 + 0.8 + 0.6)
    assert point.output_tok_s.value is None
    assert point.step_basis == "unknown"
    assert found.best == 5


def test_lengths_that_noise_does_not_separate_are_said_to_be_tied_and_clear_ones_are_not() -> None:
    level = advise("mtp", 1, [Arm(n, sample(n, 0.010 * (1 + sum(RATES[:n])), scatter=0.1)) for n in (1, 2)], 2)
    assert level.best is not None
    assert len(level.tied) == 1
    clear = advise("mtp", 1, [Arm(n, sample(n, 0.010, scatter=0.01)) for n in (1, 5)], 5)
    assert (clear.best, clear.tied) == (5, ())


def test_too_few_prompts_for_an_interval_tell_nothing_apart() -> None:
    found = advise("mtp", 1, [Arm(n, sample(n, 0.010, prompts=5)) for n in (1, 5)], 5)
    assert found.best == 5
    assert set(found.tied) == {1, 2, 3, 4}


def test_a_drafter_that_costs_more_than_it_brings_loses_to_none() -> None:
    found = advise("mtp", 1, [Arm(0, sample(0, 0.010)), Arm(1, sample(1, 0.030)), Arm(3, sample(3, 0.050))], 3)
    assert (found.best, found.tied) == (0, ())


def test_a_profile_replaces_step_times_and_says_so() -> None:
    found = advise("mtp", 1, [Arm(3, sample(3, 9.0))], 3, step_s={0: 0.010, 1: 0.012, 3: 0.016})
    points = {point.n: point for point in found.points}
    assert points[1].output_tok_s.value == pytest.approx(tok_s(1, 0.012))
    assert points[2].output_tok_s.value == pytest.approx(tok_s(2, 0.014))
    assert points[3].step_basis == "profile"
    assert points[3].measured_tok_s is None


def test_missing_acceptance_is_a_reason_and_not_a_figure() -> None:
    made = sample(3, 0.010)
    made.sums["steps"][0] = np.nan
    found = advise("mtp", 1, [Arm(3, made)], 3)
    assert (found.points, found.best) == ((), None)
    assert "--per-request-spec-decode-metrics" in (found.reason or "")


def test_the_published_mtp_sweep_of_two_3090_is_predicted_within_five_percent_without_its_middle() -> None:
    """noonghunna/club-3090, code prompt: n=1 64.15 tok/s (1.94 tokens a step), n=4 105.60 (3.90), n=6 107.54 (4.70)."""
    published = {1: (64.15, 1.94), 4: (105.60, 3.90), 6: (107.54, 4.70)}
    step = {n: length / rate for n, (rate, length) in published.items()}
    # The rates by position that give the published lengths at 1 and 6 with one conditional rate.
    keep = next(k for k in np.arange(0.5, 1.0, 1e-4) if 1 + sum(0.94 * k**i for i in range(6)) >= 4.70)
    lengths = acceptance_by_length([0.94 * keep**i for i in range(6)], 6)
    seconds = np.interp(range(1, 7), [1, 6], [step[1], step[6]])
    rates = [length / s for length, s in zip(lengths, seconds, strict=True)]
    assert rates[3] == pytest.approx(published[4][0], rel=0.05)
    assert all(later > earlier for earlier, later in itertools.pairwise(rates))
    gains = [later / earlier for earlier, later in itertools.pairwise(rates)]
    assert gains == sorted(gains, reverse=True), "every token more brings less, as published"


def test_a_real_sweep_is_predicted_from_its_longest_drafts_within_five_percent() -> None:
    found = predictions(read_sweep(repo_root() / "results" / "reference" / "draft-length-sweep.json"))
    assert {(arm.method, arm.n) for arm, *_ in found} == {("mtp", 1), ("mtp", 2), *(("dflash", n) for n in (1, 3, 5))}
    for _, _, measured, predicted in found:
        assert predicted == pytest.approx(measured, rel=0.05)


def test_one_round_is_said_not_to_see_drift() -> None:
    found = advise("mtp", 1, [Arm(n, sample(n, 0.010, scatter=0.01)) for n in (1, 5)], 5)
    assert found.rounds == 1
    assert "one round each" in sentence(found)
    assert "one round each" not in sentence(replace(found, rounds=2))
