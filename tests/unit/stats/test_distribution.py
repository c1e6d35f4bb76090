"""Distributions and the timeline that pictures are drawn from."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from support.runs import cell, record, run, whole_run

from specdeck.results.schema import Finding
from specdeck.stats.distribution import STEPS, distribution
from specdeck.stats.summary import summarize


def test_quantiles_run_from_the_smallest_to_the_largest_of_what_is_known() -> None:
    found = distribution("mtp", 4, "ttft_s", np.array([3.0, np.nan, 1.0, 2.0]))
    assert found is not None
    assert found.n == 3
    assert len(found.quantiles) == STEPS + 1
    assert (found.quantiles[0], found.quantiles[STEPS // 2], found.quantiles[-1]) == (1.0, 2.0, 3.0)


def test_without_a_known_value_there_is_no_distribution() -> None:
    assert distribution("mtp", 4, "ttft_s", np.array([np.nan])) is None
    assert summarize(run(("none",)), [(cell(), [record(tokens=None, first=None, last=None)])]).distributions == ()


def test_medians_of_distributions_are_those_of_the_rows() -> None:
    summary = summarize(*whole_run())
    found = {(d.arm, d.concurrency, d.metric): d for d in summary.distributions}
    assert len(found) == 12
    for row in summary.rows:
        assert found[row.arm, row.concurrency, "ttft_s"].quantiles[STEPS // 2] == row.ttft_s.p50
        assert found[row.arm, row.concurrency, "tpot_s"].quantiles[STEPS // 2] == row.tpot_s.p50


def test_the_timeline_counts_from_the_first_cell_and_keeps_invalid_ones() -> None:
    bad = Finding(code="contaminated", severity="invalid", message="drafts of somebody else")
    late = replace(cell("mtp", findings=(bad,), duration=7.0), started_at="2026-01-02T03:05:05+00:00")
    spans = summarize(run(("none", "mtp")), [(late, [record()]), (cell(), [record()])]).timeline
    assert [(s.arm, s.start_s, s.duration_s, s.valid) for s in spans] == [
        ("none", 0.0, 10.0, True),
        ("mtp", 60.0, 7.0, False),
    ]
