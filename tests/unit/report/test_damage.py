"""Damaged, cut off and foreign result files are named and the rest is reported, by one process or by several."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import typer
from support.runs import stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import compare, export, report, tune
from specdeck.errors import SpecdeckError
from specdeck.gates.baseline import make_baseline
from specdeck.report import load, pool
from specdeck.report.generated import run_table
from specdeck.results.quality import CheckResult, write_check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def call(*words: str | Path) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    for command in (report, compare, export, tune):
        command.register(app)
    return CliRunner().invoke(app, [*map(str, words)])


def garbage(run: Path) -> None:
    (run / "mtp" / "c1-r1" / "requests.jsonl").write_bytes(b"\xff{broken\n")


def cut_within_a_line(run: Path) -> None:
    path = run / "mtp" / "c1-r1" / "requests.jsonl"
    path.write_bytes(path.read_bytes()[:-40])


def cut_between_lines(run: Path) -> None:
    path = run / "mtp" / "c1-r1" / "requests.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))


def without_requests(run: Path) -> None:
    (run / "mtp" / "c1-r1" / "requests.jsonl").unlink()


def cell_garbage(run: Path) -> None:
    (run / "mtp" / "c1-r1" / "cell.json").write_text("{")


def cell_of_another_tool(run: Path) -> None:
    (run / "mtp" / "c1-r1" / "cell.json").write_text('{"schema_version": 1, "latency": 3}')


def cell_of_a_newer_specdeck(run: Path) -> None:
    (run / "mtp" / "c1-r1" / "cell.json").write_text('{"schema_version": 99}')


def copied_from_another_cell(run: Path) -> None:
    shutil.rmtree(run / "mtp" / "c1-r1")
    shutil.copytree(run / "mtp" / "c1-r2", run / "mtp" / "c1-r1")


DAMAGES = [
    garbage, cut_within_a_line, cut_between_lines, without_requests, cell_garbage, cell_of_another_tool,
    cell_of_a_newer_specdeck, copied_from_another_cell,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_cell_is_named_with_a_fix_and_the_rest_is_reported(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    run = stored(tmp_path, *whole_run())
    whole = {(r.arm, r.concurrency): r for r in load.load(run)[1].rows}
    damage(run)
    found = load.load(run)[1]
    rows = {(r.arm, r.concurrency): r for r in found.rows}
    assert rows["dflash2", 1].output_tok_s == whole["dflash2", 1].output_tok_s
    assert rows["mtp", 1].rounds == whole["mtp", 1].rounds - 1
    assert found.excluded_cells == 1
    printed = call("report", run)
    assert printed.exit_code == 2
    assert "mtp/c1-r1/" in printed.stderr
    assert "Fix:" in printed.stderr
    assert (run / "report.html").is_file()


def test_a_comparison_with_a_damaged_cell_fails_on_validity_and_names_the_file(tmp_path: Path) -> None:
    base, candidate = (stored(tmp_path, *whole_run(run_id=name, seed=i)) for i, name in enumerate(("base", "cand")))
    cut_between_lines(candidate)
    found = call("compare", base, candidate)
    assert found.exit_code == 1
    assert "mtp/c1-r1/requests.jsonl" in found.output
    with pytest.raises(SpecdeckError, match="cannot be a baseline"):
        make_baseline(compare.read(candidate), None)


def test_a_table_of_a_document_is_never_made_from_a_damaged_run(tmp_path: Path) -> None:
    run = stored(tmp_path, *whole_run())
    garbage(run)
    with pytest.raises(SpecdeckError, match=r"requests\.jsonl"):
        run_table(tmp_path, run.name)


def test_a_damaged_run_file_leaves_nothing_to_report(tmp_path: Path) -> None:
    run = stored(tmp_path, *whole_run())
    (run / "run.json").write_text("[]")
    failed = call("report", run)
    assert isinstance(failed.exception, SpecdeckError)
    assert failed.exception.where == str(run / "run.json")


def test_several_processes_find_what_one_finds_damage_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, *whole_run())
    cut_within_a_line(run)
    alone = load.load(run)[1]
    monkeypatch.setattr(pool, "PARALLEL_BYTES", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert load.load(run)[1] == alone


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("form", ["vllm-bench", "prometheus", "parquet"])
def test_an_export_leaves_a_damaged_cell_out_names_it_and_writes_the_rest(
    tmp_path: Path, damage: Callable[[Path], None], form: str
) -> None:
    run = stored(tmp_path, *whole_run())
    damage(run)
    done = call("export", run, "--format", form)
    assert done.exit_code == 2
    assert "mtp/c1-r1" in done.stderr
    assert "Fix:" in done.stderr
    names = {path.name for path in (run / "export").iterdir()}
    if form == "vllm-bench":
        assert names == {f"{c.arm}-{c.cell_id}.json" for c, _ in whole_run()[1]} - {"mtp-c1-r1.json"}
    elif form == "parquet":
        rows = pq.read_table(run / "export" / "requests.parquet").to_pylist()
        assert {(row["arm"], row["cell_id"]) for row in rows} == {(c.arm, c.cell_id) for c, _ in whole_run()[1]} - {
            ("mtp", "c1-r1")
        }
    else:
        assert 'specdeck_excluded_cells{run="' in (run / "export" / "specdeck.prom").read_text()


def test_an_export_by_several_processes_is_the_one_that_one_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path, *whole_run())
    cut_within_a_line(run)

    def both(folder: str) -> dict[str, bytes]:
        for form in ("parquet", "vllm-bench"):
            assert call("export", run, "--format", form, "--output", tmp_path / folder).exit_code == 2
        return {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}

    alone = both("alone")
    monkeypatch.setattr(pool, "PARALLEL_BYTES", 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert both("together") == alone
    assert len(alone) == len(whole_run()[1])


def test_advice_from_a_run_with_a_damaged_cell_names_it_and_ends_with_two(tmp_path: Path) -> None:
    run = stored(tmp_path, *whole_run())
    assert call("tune", run).exit_code == 0
    garbage(run)
    done = call("tune", run)
    assert done.exit_code == 2
    assert "mtp/c1-r1/requests.jsonl" in done.stderr
    assert "fastest" in done.output


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 99}', '{"schema_version": 1, "latency": 3}', "\xff"])
def test_a_damaged_quality_check_is_named_and_everything_else_is_reported_and_compared(
    tmp_path: Path, text: str
) -> None:
    base, run = (stored(tmp_path, *whole_run(run_id=name, seed=i)) for i, name in enumerate(("base", "cand")))
    write_check(run, CheckResult(check="loops", arm="mtp", verdict="pass", n=8))
    (run / "quality" / "gsm8k-mtp.json").write_bytes(text.encode("latin-1"))
    done = call("report", run)
    assert done.exit_code == 2
    assert "quality/gsm8k-mtp.json" in done.stderr
    assert "loops" in (run / "tables" / "quality.csv").read_text()
    assert load.load(run)[1].excluded_cells == 0
    compared = call("compare", base, run)
    assert compared.exit_code == 1
    assert "quality/gsm8k-mtp.json" in compared.output
