"""`specdeck archive` and `specdeck query`: the cells of many runs as one table, and SQL over it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specdeck.archive.ask import Answer
    from specdeck.archive.store import Archive

ARCHIVE = Path("results/archive")
BATCH = 2_000
"""Cells that are gathered before they are stored: fewer, larger files."""


class Format(enum.StrEnum):
    """How a query's answer is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("archive")(archive)
    app.command("query")(query)


def archive(
    runs: list[Path] = typer.Argument(..., metavar="RUNS…", help="Folders of runs, or folders that hold such."),
    path: Path = typer.Option(ARCHIVE, "--archive", metavar="FOLDER", help="Where the archive is."),
    merge: bool = typer.Option(False, "--merge", help="Then make one file of each recipe and arm."),
) -> None:
    """Add the cells of RUNS to the archive: Parquet by recipe and arm. A cell that is there is not added again."""
    from specdeck.archive.ask import require_libraries  # noqa: PLC0415 - `--help` must not pay for numpy
    from specdeck.archive.store import Archive  # noqa: PLC0415
    from specdeck.errors import EXIT_UNMEASURABLE  # noqa: PLC0415

    require_libraries()
    with Archive(path) as store:
        added, damaged = _add(store, _run_folders(runs))
        files = store.merge() if merge else 0
    typer.echo(f"{added} cells added to {path}" + (f", merged into {files} files" if merge else ""))
    for line in damaged:
        typer.echo(f"left out: {line}", err=True)
    if damaged:
        raise typer.Exit(EXIT_UNMEASURABLE)


def query(
    sql: str = typer.Argument("", metavar="SQL", help="One SELECT over the table `cells`."),
    path: Path = typer.Option(ARCHIVE, "--archive", metavar="FOLDER", help="Where the archive is."),
    form: Format = typer.Option(Format.TABLE, "--format", help="How the answer is printed."),
    limit: int = typer.Option(1_000, min=1, max=10_000_000, help="Most rows of an answer."),
    columns: bool = typer.Option(False, "--columns", help="List the columns of `cells` instead."),
) -> None:
    """Ask the archive that `specdeck archive` fills, in SQL (DuckDB). Nothing can be changed by a query."""
    from specdeck.archive.ask import all_columns, ask  # noqa: PLC0415
    from specdeck.errors import SpecdeckError  # noqa: PLC0415

    if columns:
        for name, kind in all_columns().items():
            typer.echo(f"{name}  {kind}")
        return
    if not sql.strip():
        raise SpecdeckError(
            "no question", where="SQL", fix="specdeck query 'SELECT recipe, arm, count(*) FROM cells GROUP BY ALL'"
        )
    answer = ask(path, sql, limit=limit)
    typer.echo(_printed(answer, form), nl=False)
    if answer.truncated:
        typer.echo(f"only the first {limit} rows; --limit N shows more", err=True)


def _run_folders(paths: list[Path]) -> list[Path]:
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.results.store import RUN_FILE  # noqa: PLC0415

    found: list[Path] = []
    for path in paths:
        here = [path] if (path / RUN_FILE).is_file() else sorted(file.parent for file in path.glob(f"*/{RUN_FILE}"))
        if not here:
            raise SpecdeckError(
                "there is no run here",
                where=str(path),
                fix="give a run's folder, or one that holds such: results/measured",
            )
        found += here
    return found


def _add(store: Archive, folders: list[Path]) -> tuple[int, list[str]]:
    from specdeck.archive.columns import rows_of  # noqa: PLC0415
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.report.load import load_requests  # noqa: PLC0415

    added, waiting, damaged = 0, [], []
    for folder in folders:
        try:
            run, cells, notes = load_requests(folder)
        except SpecdeckError as error:
            damaged.append(f"{error.where}: {error.what}")
            continue
        damaged += [f"{folder}/{note.message}" for note in notes]
        waiting += rows_of(run, cells)
        if len(waiting) >= BATCH:
            added += store.add(waiting)
            waiting = []
    return added + store.add(waiting), damaged


def _printed(answer: Answer, form: Format) -> str:
    import csv  # noqa: PLC0415
    import io  # noqa: PLC0415
    import json  # noqa: PLC0415

    out = io.StringIO()
    if form is Format.JSON:
        json.dump([dict(zip(answer.columns, row, strict=True)) for row in answer.rows], out, indent=1, default=str)
        out.write("\n")
    elif form is Format.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(["" if value is None else value for value in row] for row in answer.rows)
    else:
        shown = [[_shown(value) for value in row] for row in answer.rows]
        rows = [list(answer.columns), *shown]
        widths = [max(len(row[i]) for row in rows) for i in range(len(answer.columns))]
        markdown = form is Format.MARKDOWN
        rule = ["-" * max(3, width) for width in widths]
        for cells in [rows[0], rule, *shown]:
            padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
            out.write(f"| {' | '.join(padded)} |\n" if markdown else f"{'  '.join(padded).rstrip()}\n")
    return out.getvalue()


def _shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value).replace("|", "\\|")
