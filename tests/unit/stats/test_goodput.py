"""Good requests are those that met every limit; failed ones are requests that were not good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.runs import cell, record, run, whole_run

from specdeck.report.csv_tables import render as csv_tables
from specdeck.report.export.vllm_bench import render as vllm_bench
from specdeck.report.tables import tables
from specdeck.stats.goodput import goodput, limits_of
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from specdeck.results.schema import RequestRecord


def _one(name: str, *, first: float, last: float, tokens: int, failed: bool = False) -> RequestRecord:
    return record(name, scheduled=0.0, first=first, last=last, end=last, tokens=tokens, failed=failed)


RECORDS = [
    _one("quick", first=0.1, last=0.6, tokens=11),
    _one("late", first=0.3, last=0.8, tokens=11),
    _one("slow", first=0.1, last=2.1, tokens=11),
    _one("single", first=0.1, last=0.1, tokens=1),
    _one("failed", first=0.1, last=0.2, tokens=2, failed=True),
]


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        ({"ttft": 200}, 3),
        ({"tpot": 60}, 3),
        ({"e2el": 700}, 2),
        ({"ttft": 200, "tpot": 60}, 2),
        ({"ttft": 200, "tpot": 60, "e2el": 200}, 1),
        ({"ttft": 1e-9}, 0),
    ],
)
def test_a_request_is_good_when_it_met_every_limit_and_a_failed_one_never_is(
    limits: dict[str, float], good: int
) -> None:
    found = goodput([(cell(records=RECORDS, duration=2.0), RECORDS)], limits)
    assert found is not None
    assert (found.good, found.requests, found.share.value, found.req_s) == (good, 5, good / 5, good / 2)


def test_without_token_counts_no_request_meets_a_limit_per_token() -> None:
    blind = [record("p", scheduled=0.0, first=0.1, last=0.2, end=0.2, tokens=None)]
    found = goodput([(cell(records=blind), blind)], {"tpot": 1000})
    assert found is not None
    assert found.good == 0


def test_without_limits_no_report_mentions_goodput() -> None:
    made, cells = whole_run()
    summary = summarize(made, cells)
    assert limits_of({}) == limits_of({"goodput": None}) == {}
    assert all(row.goodput is None for row in summary.rows)
    assert "goodput" not in {table.key for table in tables(summary)}
    assert "goodput.csv" not in csv_tables(summary)
    assert vllm_bench(made, *cells[0])["request_goodput"] is None


def test_table_csv_and_export_show_the_same_good_requests() -> None:
    made, cells = whole_run(plan={"arms": ["none", "mtp", "dflash2"], "goodput": {"ttft": 150.0, "e2el": None}})
    summary = summarize(made, cells)
    table = next(table for table in tables(summary) if table.key == "goodput")
    assert table.title == "Goodput: TTFT ≤ 150 ms"
    assert len(table.rows) == len(summary.rows)
    first = summary.rows[0].goodput
    assert first is not None
    assert 0 < first.good < first.requests
    assert first.share.interval is not None
    assert f",{first.requests},{first.good}," in csv_tables(summary)["goodput.csv"].splitlines()[1]
    own = [vllm_bench(made, one, records) for one, records in cells if (one.arm, one.concurrency) == ("none", 1)]
    assert sum(item["request_goodput"] * item["duration"] for item in own) == pytest.approx(first.good)


def test_a_run_without_goodput_in_its_plan_is_read_as_before() -> None:
    assert summarize(run(), []).goodput_limits_ms == {}
