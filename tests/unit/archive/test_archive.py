"""The archive: every cell once, also after a kill between any two writes, and answers equal to the run's figures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import runs
from typer.testing import CliRunner

from specdeck.archive import store as archive_store
from specdeck.archive.ask import all_columns, ask
from specdeck.archive.columns import COLUMNS, row, rows_of
from specdeck.archive.store import INCOMING, MERGE_AT, Archive, read_index
from specdeck.cli.main import app
from specdeck.errors import SpecdeckError
from specdeck.report.load import load
from specdeck.results.schema import Finding

pytest.importorskip("duckdb")
SQL = "SELECT run_id, arm, cell_id FROM cells ORDER BY ALL"


def a_row(number: int = 0, *, recipe: str = "r", arm: str = "none", cell_id: str = "c1-r1") -> dict[str, Any]:
    return {"recipe": recipe, "arm": arm, "run_id": f"run-{number:04d}", "cell_id": cell_id, "valid": True}


def test_a_run_in_the_archive_has_the_figures_of_its_own_report(tmp_path: Path) -> None:
    run, cells = runs.whole_run()
    folder = runs.stored(tmp_path / "runs", run, cells)
    found = CliRunner().invoke(app, ["archive", str(tmp_path / "runs"), "--archive", str(tmp_path / "a")])
    assert found.exit_code == 0, found.output
    assert f"{len(cells)} cells added" in found.output
    _, summary = load(folder)
    sql = (
        "SELECT arm, max_concurrency, sum(output_tokens) / sum(duration_s), 1 + sum(accepted_tokens) / sum(drafts) "
        "FROM cells GROUP BY ALL"
    )
    answers = {(arm, level): (rate, length) for arm, level, rate, length in ask(tmp_path / "a", sql, limit=100).rows}
    assert len(answers) == len(summary.rows)
    for line in summary.rows:
        rate, length = answers[line.arm, line.concurrency]
        assert rate == pytest.approx(line.output_tok_s.value)
        assert length == (None if line.arm == "none" else pytest.approx(line.acceptance.length.value))


def test_adding_a_run_again_adds_nothing_and_adding_a_grown_run_adds_what_is_new(tmp_path: Path) -> None:
    run, cells = runs.whole_run()
    with Archive(tmp_path) as archive:
        assert archive.add(rows_of(run, cells[:5])) == 5
        assert archive.add(rows_of(run, cells[:5])) == 0
        assert archive.add(rows_of(run, cells)) == len(cells) - 5
        archive.merge()
        assert archive.add(rows_of(run, cells)) == 0
    assert ask(tmp_path, SQL, limit=100).rows == tuple(
        sorted((run.run_id, cell.arm, cell.cell_id) for cell, _ in cells)
    )


def test_an_invalid_cell_is_a_row_that_says_so_and_has_no_figures_of_requests() -> None:
    invalid = runs.cell(findings=(Finding(code="foreign_traffic", severity="invalid", message="m"),))
    (found,) = rows_of(runs.run(), [(invalid, [])])
    assert (found["valid"], found["findings"], found.get("output_tok_s")) == (False, ["foreign_traffic"], None)


def test_every_column_of_a_row_is_declared_and_what_is_missing_is_null(tmp_path: Path) -> None:
    run, cells = runs.whole_run(payloads=False)
    assert set(row(run, cells[0][0], None)) <= set(all_columns())
    with Archive(tmp_path) as archive:
        archive.add(rows_of(run, cells))
    sql = "SELECT DISTINCT energy_per_token_j, gpu, num_gpus, driver, request_rate FROM cells"
    assert ask(tmp_path, sql, limit=9).rows == ((None,) * 5,)
    described = ask(tmp_path, "DESCRIBE SELECT * FROM cells", limit=100)
    assert {line[0] for line in described.rows} == {*COLUMNS, "recipe", "arm"}


def files_on_disk(archive: Path) -> set[str]:
    return {path.relative_to(archive).as_posix() for path in archive.rglob("*.parquet")}


def test_no_place_holds_more_files_than_the_merging_allows_and_each_is_read_once(tmp_path: Path) -> None:
    adds = 3 * MERGE_AT
    with Archive(tmp_path, spill_at=20) as archive:
        for number in range(adds):
            archive.add([a_row(number, recipe="r"), a_row(100 + number, recipe="s")])
            named = archive.index.files
            for folder in {file.folder for file in named}:
                assert sum(file.folder == folder for file in named) < MERGE_AT
            assert files_on_disk(tmp_path) == {file.path for file in named}
        assert len(ask(tmp_path, SQL, limit=1000).rows) == 2 * adds
        assert archive.merge() == 2
    merged = read_index(tmp_path)
    assert [file.folder for file in merged.files] == ["cells/recipe=r/arm=none", "cells/recipe=s/arm=none"]
    assert merged.cells == 2 * adds
    assert len(ask(tmp_path, "SELECT DISTINCT run_id, recipe FROM cells", limit=1000).rows) == 2 * adds


@pytest.mark.parametrize("deadly", range(8))
def test_a_kill_between_any_two_writes_loses_no_stored_cell_and_counts_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deadly: int
) -> None:
    """Each write and each removal of the batch that sets off a merge is the last one once."""

    class Killed(BaseException):
        pass

    steps = iter(range(100))

    def dies(real: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            if next(steps) == deadly:
                raise Killed
            return real(*arguments, **options)

        return step

    with Archive(tmp_path, spill_at=MERGE_AT) as archive:
        for number in range(MERGE_AT - 1):
            archive.add([a_row(number)])
        with monkeypatch.context() as patch:
            for name in ("write_file", "replace_file"):
                patch.setattr(archive_store, name, dies(getattr(archive_store, name)))
            patch.setattr(Path, "unlink", dies(Path.unlink))
            with pytest.raises(Killed):
                archive.add([a_row(MERGE_AT - 1)])
    before = {line[0] for line in ask(tmp_path, SQL, limit=1000).rows}
    assert before >= {f"run-{number:04d}" for number in range(MERGE_AT - 1)}
    with Archive(tmp_path) as archive:
        archive.add([a_row(MERGE_AT - 1)])
        archive.merge()
    after = ask(tmp_path, SQL, limit=1000).rows
    assert [line[0] for line in after] == [f"run-{number:04d}" for number in range(MERGE_AT)]
    assert files_on_disk(tmp_path) == {file.path for file in read_index(tmp_path).files}, "leftovers are removed"


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with Archive(tmp_path), pytest.raises(SpecdeckError, match=f"pid {os.getpid()}.* is writing this archive") as found:
        Archive(tmp_path)
    assert "--fresh" not in str(found.value)


def test_names_that_are_not_file_names_come_back_as_they_were(tmp_path: Path) -> None:
    with Archive(tmp_path) as archive:
        archive.add([a_row(recipe="../../x y=1/'", arm="007")])
    assert ask(tmp_path, "SELECT recipe, arm FROM cells", limit=9).rows == (("../../x y=1/'", "007"),)
    with Archive(tmp_path) as archive:
        archive.merge()
        assert archive.add([a_row(recipe="../../x y=1/'", arm="007")]) == 0
    assert ask(tmp_path, "SELECT recipe, arm FROM cells", limit=9).rows == (("../../x y=1/'", "007"),)
    assert {path.name for path in tmp_path.iterdir()} == {"cells", INCOMING, "index.json", ".lock"}


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{out}'",
        "DROP VIEW cells",
        "SELECT 1; SELECT 2",
        "CREATE TABLE t AS SELECT 1",
        "INSTALL httpfs",
        "ATTACH '{out}'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SET enable_external_access = true",
    ],
)
def test_a_query_can_neither_write_nor_read_other_files(tmp_path: Path, sql: str) -> None:
    with Archive(tmp_path / "a") as archive:
        archive.add([a_row()])
    with pytest.raises(SpecdeckError, match="Fix:"):
        ask(tmp_path / "a", sql.format(out=tmp_path / "out"), limit=9)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sql", ["SELEKT 1", "SELECT nothing FROM cells", "SELECT arm FROM other", ""])
def test_bad_sql_is_an_error_with_a_fix_and_no_traceback(tmp_path: Path, sql: str) -> None:
    with Archive(tmp_path) as archive:
        archive.add([a_row()])
    found = CliRunner().invoke(app, ["query", sql, "--archive", str(tmp_path)])
    assert isinstance(found.exception, SpecdeckError)
    assert "Fix:" in str(found.exception)


def test_an_empty_archive_a_damaged_index_and_a_cut_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="no cells in this archive"):
        ask(tmp_path / "none", SQL, limit=9)
    with Archive(tmp_path) as archive:
        archive.add([a_row()])
    (file,) = read_index(tmp_path).files
    (tmp_path / file.path).write_bytes((tmp_path / file.path).read_bytes()[:100])
    with pytest.raises(SpecdeckError, match=file.path):
        ask(tmp_path, SQL, limit=9)
    with Archive(tmp_path) as archive, pytest.raises(SpecdeckError, match="damaged"):
        archive.add([a_row(0)])
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(SpecdeckError, match=r"index\.json"):
        ask(tmp_path, SQL, limit=9)
    with pytest.raises(SpecdeckError, match=r"index\.json"):
        Archive(tmp_path)


def test_a_damaged_run_is_left_out_by_name_and_the_others_are_added(tmp_path: Path) -> None:
    run, cells = runs.whole_run()
    runs.stored(tmp_path / "runs", run, cells)
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.json").write_text("{")
    found = CliRunner().invoke(app, ["archive", str(tmp_path / "runs"), "--archive", str(tmp_path / "a")])
    assert found.exit_code == 2
    assert f"{len(cells)} cells added" in found.output
    assert "left out" in found.output
    assert "bad/run.json" in found.output


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_answers_print_in_every_form_with_null_apart_from_zero(tmp_path: Path, form: str) -> None:
    with Archive(tmp_path) as archive:
        archive.add([a_row()])
    command = ["query", "SELECT arm, drafts, 0 AS zero FROM cells", "--archive", str(tmp_path), "--format", form]
    printed = CliRunner().invoke(app, command).output
    if form == "json":
        assert json.loads(printed) == [{"arm": "none", "drafts": None, "zero": 0}]
    elif form == "csv":
        assert printed == "arm,drafts,zero\nnone,,0\n"
    else:
        assert printed.splitlines()[-1].replace("|", " ").split() == ["none", "–", "0"]


def test_more_rows_than_the_limit_are_said_to_be_missing(tmp_path: Path) -> None:
    with Archive(tmp_path) as archive:
        archive.add([a_row(number) for number in range(3)])
    command = ["query", "SELECT run_id FROM cells", "--archive", str(tmp_path), "--limit", "2"]
    assert "only the first 2 rows" in CliRunner().invoke(app, command).output
