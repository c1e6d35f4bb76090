"""The tables of docs/performance.md say what was measured, and whether a goal is met follows from the figure alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.report import perf

if TYPE_CHECKING:
    from pathlib import Path

FIGURES: dict[str, Any] = {
    "cpu_s_per_10k": 0.12, "cpu_start_s": 0.1, "peak_mib": 40.0, "chunks_per_s": 1000.0, "ttft_error_mean_ms": 2.0,
    "ttft_error_p99_ms": 8.0, "itl_mean_ratio": 1.0, "itl_p50_ratio": 1.005, "itl_p99_ratio": 0.995,
    "itl_p99_error_ms": 0.2, "peak_ratio": 1.0, "failed": 0, "incomplete": 0, "loop_lag_p99_ms": 1.5,
}  # fmt: skip


def _document(**ours: Any) -> dict[str, Any]:
    measured: dict[str, Any] = {
        f"{load} {client} {number}": FIGURES
        for load in ("paced", "fast", "unpaced")
        for client in ("floor", "ours", "plain")
        for number in (1, 2, 3)
    }
    for number, change in ((1, {}), (2, ours), (3, ours)):
        for load in ("paced", "fast", "unpaced"):
            measured[f"{load} ours {number}"] = {**FIGURES, **change}
    measured["wide ours 1"] = {**FIGURES, **ours}
    for requests, peak in ((256, 70.0), (1024, 71.0)):
        measured[f"bench {requests}"] = {"requests": requests, "cpu_start_s": 0.3, "peak_mib": peak}
    measured |= {"help": {"wall_s": 0.2, "cpu_s": 0.1}, "parser": {"cpu_s": 0.1}, "sampler": {"percent": 0.1}}
    return {
        "date": "2026-01-02", "cpu": "A CPU", "cores": 2, "system": "Linux 6", "python": "3.11", "vllm": None,
        "load_average": 0.1, "rounds": 3, "lengths": [256, 1024], "measured": measured,
    }  # fmt: skip


def _committed(root: Path, document: dict[str, Any]) -> Path:
    path = root / perf.RESULTS
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return root


def test_every_goal_is_met_by_figures_within_its_bound() -> None:
    found = perf.goals(perf.Measured(_document()))
    assert [goal.what for goal in found if not goal.met] == []
    assert len(found) == 14


@pytest.mark.parametrize(
    ("figure", "value", "what"),
    [
        ("cpu_s_per_10k", 0.151, "CPU per 10,000 chunks"),
        ("cpu_s_per_10k", 0.16, "÷ floor reader"),
        ("ttft_error_mean_ms", 3.1, "TTFT error, mean"),
        ("ttft_error_p99_ms", 10.1, "TTFT error, p99"),
        ("itl_p99_error_ms", 1.1, "ITL p99 error"),
        ("itl_p50_ratio", 0.98, "furthest from the truth"),
        ("peak_ratio", 1.02, "furthest from the truth"),
        ("chunks_per_s", 970.0, "delivered load"),
        ("failed", 1, "streams lost"),
        ("incomplete", 1, "streams lost"),
    ],
)
def test_a_median_beyond_its_bound_is_a_goal_that_is_not_met(figure: str, value: float, what: str) -> None:
    assert any(what in goal.what for goal in perf.goals(perf.Measured(_document(**{figure: value}))) if not goal.met)


def test_the_page_says_the_medians_the_machine_and_whether_others_used_it(tmp_path: Path) -> None:
    root = _committed(tmp_path, {**_document(cpu_s_per_10k=0.5), "load_average": 1.25, "vllm": "0.32.0"})
    machine = perf.machine(root, "")
    assert "2026-01-02: A CPU, 2 cores" in machine
    assert "vLLM 0.32.0" in machine
    assert "others were using the cores" in machine
    table = perf.client_table(root, "")
    assert "| specdeck | 0.500 | 1k | 0.10 | 42 | +2.0 (+8.0) | 1.00 | 1.00 / 1.00 / 0.99 | 0.20 | 1.00 |" in table
    assert "vllm bench serve" not in table
    assert "| CPU per 10,000 chunks, 64 streams of 20 ms | ≤ 0.15 s | 0.500 s | **no** |" in perf.goal_table(root, "")
    assert "1.5 ms late" in perf.wide(root, "")


def test_without_measurements_every_table_says_so_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    for table in (perf.machine, perf.client_table, perf.goal_table, perf.wide):
        assert table(tmp_path, "") == perf.NOT_MEASURED
    with pytest.raises(SpecdeckError, match="cannot be read"):
        perf.read(_committed(tmp_path, {"date": "x"}))
