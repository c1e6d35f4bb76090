"""A run of synthetic acceptance never looks like, and is never used as, a measured one."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.runs import stored, whole_run

from specdeck.cli.export import Format, export
from specdeck.errors import SpecdeckError
from specdeck.gates.measurement import measurement
from specdeck.report import html, markdown
from specdeck.report.csv_tables import render
from specdeck.report.headline import headline
from specdeck.report.readme import snippet
from specdeck.report.synthetic import COVERS, asked_length, decode_tok_s
from specdeck.report.tables import tables
from specdeck.report.write import write_all
from specdeck.results.kind import SYNTHETIC_NOTICE
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from support.runs import Cells

    from specdeck.results.schema import Run

ASKED = {"none": None, "mtp": (0.8, 0.6, 0.4), "dflash2": (0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1)}


def synthetic(**changes: object) -> tuple[Run, Cells]:
    run, cells = whole_run(device="cuda", **changes)  # type: ignore[arg-type]
    arms = {name: replace(info, asked_rates=ASKED[name]) for name, info in run.arms.items()}
    return replace(run, acceptance_kind="synthetic", arms=arms), cells


def test_the_report_leads_with_steps_and_says_what_it_covers() -> None:
    run, cells = synthetic()
    summary = summarize(run, cells)
    assert [t.key for t in tables(summary)] == ["steps", "assumed-throughput", "positions", "latency"]
    text = markdown.render(run, summary)
    assert COVERS in text
    assert SYNTHETIC_NOTICE in text
    assert "breaks even" in headline(summary)
    assert "acceptance length 1" not in headline(summary)
    assert SYNTHETIC_NOTICE in html.render(run, summary)


def test_asked_and_realised_stand_side_by_side() -> None:
    run, cells = synthetic()
    summary = summarize(run, cells)
    positions = next(t for t in tables(summary) if t.key == "positions")
    assert positions.rows[0][1] == "80.0 %"
    assert positions.rows[0][3] == "90.0 %"
    assert re.fullmatch(r"[\d.]+ %", positions.rows[0][2])
    assert positions.rows[4][1] == "–"


def test_throughput_is_the_asked_length_over_the_step() -> None:
    run, cells = synthetic(concurrency=(1,))
    summary = summarize(run, cells)
    arm = next(a for a in summary.arms if a.name == "mtp")
    row = next(r for r in summary.rows if r.arm == "mtp")
    assert asked_length(arm) == pytest.approx(2.8)
    assert decode_tok_s(row, arm) == pytest.approx(2.8 / (row.step_s.value or 0))
    plain = next(r for r in summary.rows if r.arm == "none")
    assert decode_tok_s(plain, next(a for a in summary.arms if a.name == "none")) == pytest.approx(
        1 / (plain.step_s.value or 0)
    )


def test_without_a_baseline_the_headline_shows_step_times() -> None:
    run, cells = synthetic(arms=("mtp", "dflash2"), baseline=None)
    assert headline(summarize(run, cells)).startswith("Step times on tiny-next-cpu")


def test_texts_are_not_compared_and_no_picture_is_drawn(tmp_path: Path) -> None:
    run, cells = synthetic()
    summary = summarize(run, cells)
    assert summary.equal_text == ()
    (tmp_path / "acceptance.png").write_bytes(b"of an older report")
    written = {path.name for path in write_all(tmp_path, run, summary)}
    assert not {name for name in written if name.endswith(".png")}
    assert not (tmp_path / "acceptance.png").exists()


def test_every_row_of_the_tables_says_of_which_kind_it_is() -> None:
    run, cells = synthetic()
    for name in ("arms.csv", "per_position.csv"):
        rows = list(csv.DictReader(io.StringIO(render(summarize(run, cells))[name])))
        assert rows
        assert {row["acceptance_kind"] for row in rows} == {"synthetic"}


def test_gates_exports_and_readmes_refuse_it(tmp_path: Path) -> None:
    run, cells = synthetic()
    with pytest.raises(SpecdeckError, match="asked for, not measured") as refused:
        measurement(run, cells)
    assert "--synthetic-acceptance" in str(refused.value)
    with pytest.raises(SpecdeckError, match="asked for, not measured"):
        snippet(run, summarize(run, cells))
    folder = stored(tmp_path, run, cells)
    with pytest.raises(SpecdeckError, match="asked for, not measured"):
        export(folder, form=Format.PROMETHEUS, output=tmp_path / "out", metric_percentiles="50")
    assert not (tmp_path / "out").exists()
