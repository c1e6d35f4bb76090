"""Stages and knees: figures of the requests that were due in a stage, and where more load stops paying."""

from __future__ import annotations

import msgspec
import pytest
from support.runs import cell, record, run, whole_run

from specdeck.report.csv_tables import render as csv_tables
from specdeck.report.export.vllm_bench import render as vllm_bench
from specdeck.report.tables import tables
from specdeck.results.schema import Cell, LoadStage, RequestRecord
from specdeck.stats.knee import knee
from specdeck.stats.model import Estimate, Goodput
from specdeck.stats.summary import summarize

STAGES = tuple(
    LoadStage(
        number=n, request_rate=1.0 * n, to_request_rate=2.0, burstiness=1.0, requests=2, start_s=0.0, duration_s=4.0
    )
    for n in (1, 2)
)


def _staged() -> tuple[Cell, list[RequestRecord]]:
    records = [
        msgspec.structs.replace(
            record(f"p{n}", index=n, scheduled=0.0, first=0.1 * stage, last=1.0, tokens=10 * stage, failed=n == 3),
            stage=stage,
        )
        for n, stage in enumerate((1, 1, 2, 2))
    ]
    return msgspec.structs.replace(cell(records=records), stages=STAGES), records


def test_a_stage_has_the_figures_of_the_requests_that_were_due_in_it() -> None:
    made = run(plan={"goodput": {"ttft": 150}})
    one, records = _staged()
    first, second = summarize(made, [(one, records)]).stages
    assert (first.requests, first.failed, second.requests, second.failed) == (2, 0, 1, 1)
    assert [row.ttft_s.p50 for row in (first, second)] == pytest.approx([0.1, 0.2])
    assert (first.output_tok_s, second.output_tok_s) == (20 / 4, 20 / 4)
    assert first.goodput is not None
    assert second.goodput is not None
    assert (first.goodput.good, second.goodput.good) == (2, 0)


def test_rounds_of_a_stage_are_pooled_and_their_seconds_added() -> None:
    one, records = _staged()
    again = msgspec.structs.replace(one, round=2, cell_id="c1-r2")
    first = summarize(run(), [(one, records), (again, records)]).stages[0]
    assert (first.requests, first.output_tok_s) == (4, 40 / 8)


def test_table_csv_and_export_know_stages_and_that_no_single_rate_holds() -> None:
    one, records = _staged()
    summary = summarize(run(), [(one, records)])
    table = next(table for table in tables(summary) if table.key == "stages")
    assert [row[2] for row in table.rows] == ["1 to 2", "2"]
    assert len(csv_tables(summary)["stages.csv"].splitlines()) == 3
    exported = vllm_bench(run(), one, records)
    assert exported["request_rate"] is None
    assert exported["mean_client_queue_time_ms"] == 0.0
    plain, cells = whole_run()
    assert "stages.csv" not in csv_tables(summarize(plain, cells))


@pytest.mark.parametrize(
    ("rates", "at", "bounded"),
    [([10, 20, 40], 4, False), ([10, 39, 40], 2, True), ([40, 39, 20], 1, True), ([10, 37, 40], 4, False)],
)
def test_the_knee_is_the_smallest_concurrency_near_the_highest_rate(rates: list[float], at: int, bounded: bool) -> None:
    made, cells = whole_run(concurrency=(1, 2, 4))
    rows = [row for row in summarize(made, cells).rows if row.arm == "mtp"]
    levels = [
        msgspec.structs.replace(row, output_tok_s=Estimate(value=float(rate)))
        for row, rate in zip(rows, rates, strict=True)
    ]
    found = knee("mtp", levels)
    assert found is not None
    assert (found.concurrency, found.bounded, found.peak_output_tok_s) == (at, bounded, max(rates))
    assert found.within_limits is None
    assert knee("mtp", levels[:2]) is None
    assert knee("mtp", [*levels[:2], msgspec.structs.replace(levels[2], output_tok_s=Estimate())]) is None


def test_the_load_within_limits_ends_before_the_first_level_that_breaks_them() -> None:
    made, cells = whole_run(concurrency=(1, 2, 4))
    rows = [row for row in summarize(made, cells).rows if row.arm == "mtp"]
    levels = [
        msgspec.structs.replace(row, goodput=Goodput(good=0, requests=0, share=Estimate(value=share), req_s=1.0))
        for row, share in zip(rows, (1.0, 0.5, 1.0), strict=True)
    ]
    found = knee("mtp", levels)
    assert found is not None
    assert found.within_limits == 1


def test_a_sweep_of_two_concurrencies_shows_no_knee() -> None:
    for concurrency, shown in (((1, 4), False), ((1, 2, 4), True)):
        made, cells = whole_run(concurrency=concurrency)
        assert ("knee" in {table.key for table in tables(summarize(made, cells))}) is shown
