"""The table of requests for notebooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from support.runs import cell, payload, record, run, stored, whole_run

from specdeck.errors import SpecdeckError
from specdeck.report.export import parquet
from specdeck.report.export.write import parquet_table
from specdeck.results.schema import Finding
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from support.runs import Cells

    from specdeck.results.schema import Run


def _written(folder: Path, made: Run, cells: Cells) -> Any:
    assert parquet_table(stored(folder, made, cells), folder / "out") == (1, [])
    return pq.read_table(folder / "out" / parquet.FILE)


def test_every_request_is_a_row_and_its_figures_are_those_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BATCH", 7)
    made, cells = whole_run()
    table = _written(tmp_path, made, cells)
    assert table.num_rows == sum(len(records) for _, records in cells)
    assert {field.name for field in table.schema} == set(parquet.COLUMNS)
    rows = [row for row in table.to_pylist() if row["arm"] == "dflash2"]
    accepted, steps = sum(r["accepted_tokens"] for r in rows), sum(r["spec_steps"] for r in rows)
    arm = next(arm for arm in summarize(made, cells).arms if arm.name == "dflash2")
    assert 1 + accepted / steps == pytest.approx(arm.acceptance.length_from_payloads)


def test_what_is_missing_is_null_and_failed_or_invalid_is_marked(tmp_path: Path) -> None:
    bad = Finding(code="contaminated", severity="invalid", message="drafts of somebody else")
    records = [record("p0", tokens=None, first=None), record("p1", index=1, failed=True, spec=payload(2, 1, n=3))]
    made = _written(tmp_path, run(), [(cell("mtp", findings=(bad,), records=records), records)])
    first, second = made.to_pylist()
    assert (first["cell_valid"], first["ttft_s"], first["tpot_s"], first["completion_tokens"]) == (False,) + (None,) * 3
    assert (second["error"], second["ttft_s"], second["e2e_s"]) == ("timeout", None, None)
    assert (second["spec_steps"], second["draft_tokens"], second["accepted_tokens"]) == (2, 6, 3)


def test_a_run_without_requests_is_a_table_without_rows(tmp_path: Path) -> None:
    assert _written(tmp_path, run(), []).num_rows == 0


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecdeckError, match="pyarrow") as caught:
        parquet_table(stored(tmp_path, *whole_run()), tmp_path / "out")
    assert "pip install" in (caught.value.fix or "")
    assert not (tmp_path / "out").exists()
