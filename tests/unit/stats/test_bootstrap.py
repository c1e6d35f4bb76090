"""The interval: exact where it can be computed by hand, and covering what it claims to in simulated experiments."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from specdeck.stats import bootstrap
from specdeck.stats.bootstrap import (
    MIN_PROMPTS,
    cluster_interval,
    cluster_quantile_interval,
    expanded_tail,
    percentile_interval,
    resample_counts,
    resample_sums,
    student_quantile,
)

if TYPE_CHECKING:
    from specdeck.stats.bootstrap import FloatArray


@pytest.mark.parametrize(
    ("df", "expected"),
    [(1, 12.7062), (2, 4.3027), (5, 2.5706), (9, 2.2622), (30, 2.0423), (199, 1.9720), (5000, 1.9604)],
)
def test_student_quantile_equals_the_printed_tables(df: int, expected: float) -> None:
    assert student_quantile(0.975, df) == pytest.approx(expected, abs=6e-5)


def test_every_draw_takes_as_many_clusters_as_there_are() -> None:
    counts = np.concatenate(list(resample_counts(7, 500, seed=1)))
    assert counts.shape == (500, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.15)


def test_chunked_draws_are_all_there_and_the_seed_decides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(20, dtype=float).reshape(10, 2)
    whole = resample_sums(rows, resamples=101, seed=3)
    assert whole.shape == (101, 2)
    assert (whole == resample_sums(rows, resamples=101, seed=3)).all()
    assert not (whole == resample_sums(rows, resamples=101, seed=4)).all()
    monkeypatch.setattr("specdeck.stats.bootstrap._KEPT_ELEMENTS", 0)
    assert (whole == resample_sums(rows, resamples=101, seed=3)).all()
    monkeypatch.setattr("specdeck.stats.bootstrap._CHUNK_ELEMENTS", 70)
    assert resample_sums(rows, resamples=101, seed=3).shape == (101, 2)


def test_draws_have_the_distribution_of_all_possible_samples() -> None:
    """Three clusters have 27 equally likely samples: the drawn sums must occur as often as those do."""
    values = np.array([1.0, 10.0, 100.0])
    exact = [sum(sample) for sample in itertools.product(values, repeat=3)]
    drawn = resample_sums(values[:, None], resamples=27_000, seed=5)[:, 0]
    for total in set(exact):
        share = exact.count(total) / 27
        assert (drawn == total).mean() == pytest.approx(share, abs=4 * np.sqrt(share / 27_000))


def test_identical_prompts_give_an_interval_of_no_width() -> None:
    rows = np.tile([30.0, 10.0], (8, 1))
    found = cluster_interval(rows, lambda s: s[:, 0] / s[:, 1])
    assert found is not None
    assert (found.lo, found.hi, found.prompts) == (3.0, 3.0, 8)


def test_there_is_no_interval_with_too_few_prompts_or_an_undefined_ratio() -> None:
    few = np.ones((MIN_PROMPTS - 1, 2))
    assert cluster_interval(few, lambda s: s[:, 0] / s[:, 1]) is None
    sparse = np.zeros((8, 2))
    sparse[0] = 1
    assert cluster_interval(sparse, lambda s: s[:, 0] / s[:, 1]) is None


def test_the_tail_is_widened_for_few_prompts_and_nominal_for_many() -> None:
    assert expanded_tail(100_000) == pytest.approx(0.025, abs=1e-4)
    assert expanded_tail(10) == pytest.approx(0.0085, abs=5e-4)
    values = np.linspace(0, 1, 1001)
    found = percentile_interval(values, 10)
    assert found is not None
    assert found.lo == pytest.approx(expanded_tail(10))


def test_the_quantile_of_a_resample_equals_numpys_on_the_repeated_values() -> None:
    generator = np.random.default_rng(2)
    cluster = np.repeat(np.arange(7), 3)
    values = generator.lognormal(size=21)
    for q in (0.5, 0.99, 0.0, 1.0):
        by_hand = []
        for counts in np.concatenate(list(resample_counts(7, 50, seed=9))):
            drawn = np.repeat(values, counts[cluster].astype(int))
            by_hand.append(np.percentile(drawn, 100 * q))
        expected = percentile_interval(np.array(by_hand), 7)
        assert expected is not None
        found = cluster_quantile_interval(values, cluster, q, resamples=50, seed=9)
        assert found is not None
        assert (found.lo, found.hi) == pytest.approx((expected.lo, expected.hi), rel=1e-12)


@pytest.mark.parametrize("shape", ["normal", "heavy tails"])
@pytest.mark.parametrize("prompts", [10, 40])
def test_intervals_of_a_ratio_cover_the_truth_as_often_as_they_say(shape: str, prompts: int) -> None:
    """1,000 experiments: prompts differ in length and speed, rounds share the prompt, arms share the prompt."""
    generator = np.random.default_rng(11)
    covered = 0
    experiments, rounds = 1000, 3
    truth = 1.3
    for _ in range(experiments):
        tokens = generator.integers(40, 65, size=prompts) * float(rounds)
        spread = 0.2
        prompt = generator.normal(0, spread, (2, prompts))
        if shape == "heavy tails":
            prompt = spread * generator.standard_t(4, (2, prompts)) / np.sqrt(2)
        noise = generator.normal(0, 0.05, (2, prompts, rounds))
        base = tokens * np.exp(prompt[0] + noise[0].mean(axis=1))
        arm = tokens * np.exp(prompt[1] + noise[1].mean(axis=1)) / truth
        sums = np.stack([tokens, arm, tokens, base], axis=1)
        found = cluster_interval(
            sums,
            lambda s: (s[:, 0] / s[:, 1]) / (s[:, 2] / s[:, 3]),
            resamples=1000,
            seed=int(generator.integers(2**31)),
        )
        assert found is not None
        covered += found.lo <= truth <= found.hi
    assert 0.93 <= covered / experiments <= 0.97


def test_ten_thousand_resamples_are_computed_at_once_and_not_one_by_one() -> None:
    """What makes it fast, without a clock: `make perf-report` measures the seconds."""
    rounds = np.random.default_rng(0).lognormal(size=(200, 5, 4))
    shapes: list[tuple[int, ...]] = []

    def ratio(sums: FloatArray) -> FloatArray:
        shapes.append(sums.shape)
        return (sums[:, 0] / sums[:, 1]) / (sums[:, 2] / sums[:, 3])

    assert cluster_interval(rounds.sum(axis=1), ratio) is not None
    assert shapes == [(10_000, 4)]


def test_groups_of_many_prompts_scatter_as_the_prompts_do(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.random.default_rng(3).lognormal(size=(4_000, 2))

    def width() -> float:
        found = cluster_interval(sums, lambda s: s[:, 0] / s[:, 1], resamples=4_000)
        assert found is not None
        assert found.prompts == 4_000
        return found.hi - found.lo

    grouped = width()
    monkeypatch.setattr(bootstrap, "MAX_CLUSTERS", 4_000)
    assert grouped == pytest.approx(width(), rel=0.1)


def test_the_interval_of_a_median_of_many_values_is_that_of_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a cluster resemble each other: an interval that took them for independent would be a third as wide."""
    generator = np.random.default_rng(4)
    values = np.exp(generator.normal(size=(400, 1)) + 0.3 * generator.normal(size=(400, 15))).ravel()
    cluster = np.repeat(np.arange(400), 15)
    large = cluster_quantile_interval(values, cluster, 0.5)
    monkeypatch.setattr(bootstrap, "MAX_QUANTILE_VALUES", 10_000)
    drawn = cluster_quantile_interval(values, cluster, 0.5)
    assert large is not None
    assert drawn is not None
    assert (large.lo, large.hi) == pytest.approx((drawn.lo, drawn.hi), rel=0.03)
