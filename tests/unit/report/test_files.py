"""The files a report leaves, the README's table, and the command."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
import typer
from PIL import Image
from support.runs import cell, record, run, stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import report as command
from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError
from specdeck.report import plots, readme, write_all
from specdeck.report.load import load
from specdeck.report.plots import draw
from specdeck.results.quality import CheckResult, write_check
from specdeck.results.schema import Finding
from specdeck.stats.model import Summary
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path


NAMES = {
    "summary.json",
    "report.md",
    "report.html",
    "acceptance.png",
    "throughput.png",
    "tables/arms.csv",
    "tables/per_position.csv",
    "tables/per_category.csv",
    "tables/latency.csv",
}
INVALID = Finding(code="contaminated", severity="invalid", message="drafts of somebody else")


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    command.register(made)
    made.callback()(lambda: None)
    return made


def test_every_file_is_written_and_a_second_time_with_the_same_bytes(tmp_path: Path) -> None:
    made, cells = whole_run()
    summary = summarize(made, cells)
    written = write_all(tmp_path, made, summary)
    assert {str(path.relative_to(tmp_path)) for path in written} == NAMES
    first = {path: path.read_bytes() for path in written}
    assert write_all(tmp_path, made, summary) == written
    assert {path: path.read_bytes() for path in written} == first
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == NAMES


def test_the_summary_reads_back_as_it_was(tmp_path: Path) -> None:
    made, cells = whole_run()
    summary = summarize(made, cells)
    write_all(tmp_path, made, summary)
    assert msgspec.json.decode((tmp_path / "summary.json").read_bytes(), type=Summary) == summary


def test_a_picture_with_nothing_to_show_is_removed(tmp_path: Path) -> None:
    made, cells = whole_run()
    write_all(tmp_path, made, summarize(made, cells))
    only = [(c, r) for c, r in cells if c.arm == "none"]
    written = write_all(tmp_path, made, summarize(made, only))
    assert tmp_path / "acceptance.png" not in written
    assert not (tmp_path / "acceptance.png").exists()
    assert "acceptance.png" not in (tmp_path / "report.md").read_text()
    assert "throughput.png" in (tmp_path / "report.md").read_text()


def test_a_report_that_cannot_be_written_is_an_error_with_a_fix(tmp_path: Path) -> None:
    made, cells = whole_run()
    (tmp_path / "tables").write_text("in the way")
    with pytest.raises(SpecdeckError) as caught:
        write_all(tmp_path, made, summarize(made, cells))
    assert caught.value.fix


def test_pictures_are_large_enough_and_not_blank(tmp_path: Path) -> None:
    made, cells = whole_run()
    write_all(tmp_path, made, summarize(made, cells))
    for name in ("acceptance.png", "throughput.png"):
        with Image.open(tmp_path / name) as image:
            assert image.width >= 1000
            assert len(image.convert("RGB").getcolors(maxcolors=1_000_000) or []) > 20


def test_a_picture_is_the_same_each_time() -> None:
    summary = summarize(*whole_run())
    assert draw("throughput", summary, "svg") == draw("throughput", summary, "svg")


def test_the_throughput_picture_says_in_itself_that_the_cpu_predicts_no_gpu() -> None:
    """The text of a picture is drawn as outlines; its lines are kept as comments in the SVG."""
    with_notice = draw("throughput", summarize(*whole_run()), "svg") or b""
    without = draw("throughput", summarize(*whole_run(device="cuda")), "svg") or b""
    assert b"CPU engine: does not predict a GPU" in with_notice
    assert b"CPU engine" not in without


def test_a_picture_of_nothing_is_none() -> None:
    nothing = summarize(run(), [])
    assert draw("acceptance", nothing) is None
    assert draw("throughput", nothing) is None


def test_labels_keep_clear_of_other_curves_and_labels() -> None:
    long = ([1.0, 2, 3, 4, 5, 6, 7], [80.0, 60, 48, 36, 28, 22, 17])
    short = ([1.0, 2, 3], [76.0, 58, 45])
    same = ([1.0, 2, 3, 4, 5, 6, 7], [80.0, 60, 48, 36, 28, 22, 18])
    heights = plots._label_heights([short, long, same])
    assert abs(heights[1] - heights[2]) >= 2 * plots.LABEL_HALF
    on_the_right = (48 - 0.1 * 12, 36 + 0.4 * 12)  # the long curve beside the short one's label
    assert heights[0] - plots.LABEL_HALF > max(on_the_right) or heights[0] + plots.LABEL_HALF < min(on_the_right)


def test_odd_names_and_dollar_signs_are_drawn_as_they_are() -> None:
    made, cells = whole_run(recipe_name="$x^2$ and <b> & %")
    assert draw("acceptance", summarize(made, cells)) is not None


def test_reports_load_matplotlib_only_when_something_is_drawn() -> None:
    code = "import sys, specdeck.report, specdeck.report.terminal; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_readme_names_where_it_was_measured() -> None:
    made, cells = whole_run()
    text = readme.snippet(made, summarize(made, cells), "results/measured/x")
    assert text.rstrip().endswith(
        "Measured on Example CPU, 2 cores, vLLM 0.32.0, 2026-01-02, commit 0123456789ab: "
        "specdeck bench tiny-next-cpu --plan mtp-vs-dflash2"
    )
    assert "](results/measured/x/acceptance.png)" in text


def test_the_command_writes_the_report_and_prints_the_tables(tmp_path: Path, app: typer.Typer) -> None:
    folder = stored(tmp_path, *whole_run())
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "DFlash2 (n=7) vs MTP (n=3)" in done.output
    assert "report.html" in done.output
    assert all((folder / name).is_file() for name in NAMES)


def test_a_summary_from_the_disk_equals_the_one_from_memory(tmp_path: Path) -> None:
    made, cells = whole_run()
    assert load(stored(tmp_path, made, cells)) == (made, summarize(made, cells))


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("json", "{"),
        ("markdown", "# tiny"),
        ("html", "<!doctype html>"),
        ("readme", "DFlash2"),
        ("terminal", "DFlash2"),
    ],
)
def test_a_format_is_printed_and_nothing_written(tmp_path: Path, app: typer.Typer, name: str, start: str) -> None:
    folder = stored(tmp_path, *whole_run())
    before = sorted(folder.rglob("*"))
    done = CliRunner().invoke(app, ["report", str(folder), "--format", name])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(start)
    assert sorted(folder.rglob("*")) == before


def test_a_run_without_valid_cells_is_reported_and_ends_with_two(tmp_path: Path, app: typer.Typer) -> None:
    folder = stored(tmp_path, run(("none",)), [(cell(findings=(INVALID,)), [record()])])
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == EXIT_UNMEASURABLE
    assert "Nothing to compare" in done.output
    assert "drafts of somebody else" in done.output
    assert (folder / "report.html").is_file()


def test_an_unknown_run_is_an_error_with_a_fix(tmp_path: Path, app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path / "nowhere")])
    assert isinstance(done.exception, SpecdeckError)
    assert done.exception.exit_code == EXIT_UNMEASURABLE
    assert done.exception.fix


def test_quality_checks_beside_a_run_are_in_every_format_the_failed_ones_first(
    tmp_path: Path, app: typer.Typer
) -> None:
    folder = stored(tmp_path, *whole_run())
    write_check(
        folder,
        CheckResult(
            check="gsm8k", arm="mtp", verdict="pass", n=200, value=0.913, interval=(0.87, 0.95), reference=0.92
        ),
    )
    write_check(
        folder,
        CheckResult(
            check="needle", arm="dflash2", verdict="fail", n=9, reason="3 of 9 | not found", details={"big": [1]}
        ),
    )
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if line.startswith(("gsm8k", "needle"))]
    assert [line.split()[:3] for line in lines] == [["needle", "dflash2", "fail"], ["gsm8k", "mtp", "pass"]]
    assert "0.913 [0.870–0.950]" in lines[1]
    assert "3 of 9 \\| not found" in (folder / "report.md").read_text()
    assert 'id="quality">Quality checks' in (folder / "report.html").read_text()
    assert (folder / "tables" / "quality.csv").read_text().splitlines() == [
        "check,arm,verdict,value,value_lo,value_hi,unit,reference,n,reason",
        "gsm8k,mtp,pass,0.913,0.87,0.95,,0.92,200,",
        "needle,dflash2,fail,,,,,,9,3 of 9 | not found",
    ]
    stored_summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)
    assert [(c.check, c.details) for c in stored_summary.quality] == [("gsm8k", {}), ("needle", {})]


def test_a_run_that_holds_only_quality_checks_is_reported(tmp_path: Path, app: typer.Typer) -> None:
    folder = stored(tmp_path, run(), [])
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == EXIT_UNMEASURABLE
    write_check(folder, CheckResult(check="loops", arm="mtp", verdict="unmeasurable", n=0, reason="it died"))
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    assert "it died" in done.output
