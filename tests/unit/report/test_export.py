"""Exports: the keys and conventions of `vllm bench serve`, and an exposition that Prometheus' own parser reads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
import typer
from prometheus_client.parser import text_string_to_metric_families
from support.runs import cell, record, run, stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import export
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.report.export import prometheus, vllm_bench
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

SETUP = "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency"
RESULT = (
    "duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput "
    "output_throughput total_token_throughput input_lens output_lens ttfts itls latencies start_times queue_times "
    "generated_texts errors max_output_tokens_per_s max_concurrent_requests rtfx"
)
SPECULATIVE = {
    f"spec_decode_{name}"
    for name in (
        "acceptance_rate", "acceptance_length", "num_drafts", "draft_tokens", "accepted_tokens",
        "per_position_acceptance_rates",
    )
}  # fmt: skip
FIGURES = ("mean", "median", "std", "p50", "p90", "p99")
METRICS = ("ttft", "tpot", "itl", "e2el")
STATISTICS = {f"{figure}_{metric}_ms" for metric in METRICS for figure in FIGURES}


def test_the_keys_are_those_of_vllm_bench_serve() -> None:
    """Names as vLLM 0.32 writes them, listed by hand: a wrong one fails nobody, the reader just finds nothing."""
    made, cells = whole_run()
    drafting = next((c, r) for c, r in cells if c.arm == "mtp")
    plain = next((c, r) for c, r in cells if c.arm == "none")
    common = {*SETUP.split(), *RESULT.split(), *STATISTICS}
    assert set(vllm_bench.render(made, *drafting)) == common | SPECULATIVE
    assert set(vllm_bench.render(made, *plain)) == common


def test_figures_follow_its_conventions() -> None:
    records = [
        record("a", index=0, scheduled=0.0, first=0.5, last=1.5, end=1.6, tokens=11, chunks=(0.5, 1.0, 1.5)),
        record("b", index=1, scheduled=1.0, first=2.0, last=4.0, end=4.1, tokens=21, chunks=(2.0, 4.0)),
        record("c", index=2, scheduled=1.0, failed=True),
    ]
    found = vllm_bench.render(run(), cell("none", duration=5.0, records=records), records)
    assert (found["completed"], found["failed"], found["num_prompts"]) == (2, 1, 3)
    assert found["output_lens"] == [11, 21, 0]
    assert found["output_throughput"] == pytest.approx(32 / 5)
    assert found["total_token_throughput"] == pytest.approx((32 + 40) / 5)
    assert found["itls"] == [[0.5, 0.5], [2.0], []]
    assert found["mean_ttft_ms"] == pytest.approx(750)
    assert found["mean_tpot_ms"] == pytest.approx(100)
    assert found["p99_e2el_ms"] == pytest.approx(np.percentile([1500, 3000], 99))
    assert found["errors"] == ["", "", "timed out"]
    assert found["max_concurrent_requests"] == 2
    json.dumps(found)


def test_an_open_loop_tells_its_rate_and_shows_waiting_in_the_client_apart() -> None:
    due = [record("a", index=0, scheduled=0.0, first=0.5, last=1.5), record("b", index=1, scheduled=1.0, last=4.0)]
    due[1] = msgspec.structs.replace(due[1], sent_s=3.0, first_token_s=3.5)
    one = msgspec.structs.replace(cell("none", records=due), request_rate=2.5, burstiness=0.25)
    found = vllm_bench.render(run(), one, due)
    assert (found["request_rate"], found["burstiness"]) == (2.5, 0.25)
    assert found["queue_times"] == [0.0, 2.0]
    assert found["mean_client_queue_time_ms"] == pytest.approx(1000)
    assert found["mean_e2el_ms"] == pytest.approx(1250)
    assert found["mean_e2el_including_client_queue_ms"] == pytest.approx(2250)
    assert found["mean_ttft_ms"] == pytest.approx(500)


def test_a_closed_loop_has_no_rate() -> None:
    found = vllm_bench.render(run(), cell("none", records=[record()]), [record()])
    assert (found["request_rate"], found["burstiness"]) == ("inf", 1.0)
    assert not {key for key in found if "client_queue" in key}


def test_the_percentiles_asked_for_are_those_written() -> None:
    found = vllm_bench.render(run(), cell("none", records=[record()]), [record()], percentiles=(25.0, 99.9))
    assert {key for key in found if key.endswith("_ttft_ms")} == {
        "mean_ttft_ms", "median_ttft_ms", "std_ttft_ms", "p25_ttft_ms", "p99.9_ttft_ms",
    }  # fmt: skip


def test_the_acceptance_rate_is_in_percent_and_the_length_includes_the_bonus() -> None:
    made, cells = whole_run()
    one, records = next((c, r) for c, r in cells if c.arm == "dflash2")
    found = vllm_bench.render(made, one, records)
    rates = found["spec_decode_per_position_acceptance_rates"]
    assert found["spec_decode_acceptance_length"] == pytest.approx(1 + sum(rates))
    assert found["spec_decode_acceptance_rate"] == pytest.approx(100 * sum(rates) / 7)


def test_a_missing_usage_makes_totals_null_not_small() -> None:
    records = [record("a", index=0), record("b", index=1, tokens=None)]
    found = vllm_bench.render(run(), cell("none", records=records), records)
    assert found["total_output_tokens"] is None
    assert found["output_throughput"] is None


def test_prometheus_reads_the_textfile_and_finds_the_reports_figures() -> None:
    summary = summarize(*whole_run(recipe_name='odd "name"\\'))
    families = {family.name: family for family in text_string_to_metric_families(prometheus.render(summary))}
    found = {
        (s.labels["arm"], s.labels["concurrency"], s.labels["bound"]): s.value
        for s in families["specdeck_acceptance_length"].samples
    }
    for row in summary.rows:
        assert found.get((row.arm, str(row.concurrency), "value")) == row.acceptance.length.value
    assert families["specdeck_excluded_cells"].samples[0].labels["recipe"] == 'odd "name"\\'


def test_the_command_writes_a_file_for_each_cell(tmp_path: Path) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    export.register(app)
    app.callback()(lambda: None)
    made, cells = whole_run()
    path = stored(tmp_path, made, cells)
    done = CliRunner().invoke(app, ["export", str(path), "--format", "vllm-bench"])
    assert done.exit_code == 0, done.output
    names = {file.name for file in (path / "export").iterdir()}
    assert names == {f"{c.arm}-{c.cell_id}.json" for c, _ in cells}
    assert CliRunner().invoke(app, ["export", str(path), "--format", "prometheus"]).exit_code == 0
    assert (path / "export" / "specdeck.prom").read_text().startswith("# HELP specdeck_output_tokens_per_second")


@pytest.mark.parametrize("text", ["", "50,", "x", "101", "-1", "nan"])
def test_percentiles_that_are_none_are_refused_before_anything_is_written(tmp_path: Path, text: str) -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    export.register(app)
    app.callback()(lambda: None)
    path = stored(tmp_path, *whole_run())
    asked = ["export", str(path), "--format", "vllm-bench", "--metric-percentiles", text]
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, SpecdeckError)
    assert "--metric-percentiles" in str(done.exception)
    assert not (path / "export").exists()
    assert CliRunner().invoke(app, [*asked[:-1], "25,99.9"]).exit_code == 0
    assert all("p99.9_e2el_ms" in json.loads(file.read_text()) for file in (path / "export").iterdir())


def test_the_dashboard_asks_only_for_series_that_vllm_has_and_says_what_each_panel_shows() -> None:
    """Names as a vLLM 0.32 server exposed them under speculative decoding. A wrong one would only show no data."""
    known = {
        "generation_tokens_total", "inter_token_latency_seconds_bucket", "kv_cache_usage_perc", "num_requests_running",
        "num_requests_waiting", "prefix_cache_hits_total", "prefix_cache_queries_total",
        "spec_decode_num_accepted_tokens_per_pos_total", "spec_decode_num_accepted_tokens_total",
        "spec_decode_num_draft_tokens_total", "spec_decode_num_drafts_total", "time_to_first_token_seconds_bucket",
    }  # fmt: skip
    text = (repo_root() / "dashboards" / "spec-decode.json").read_text()
    assert set(re.findall(r"vllm:([a-z_]+)", text)) == known
    panels = json.loads(text)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == 8
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])
