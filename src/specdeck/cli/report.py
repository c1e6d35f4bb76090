"""`specdeck report`: the tables, pictures and pages of a run, made from its stored cells."""

from __future__ import annotations

import enum
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from specdeck.results.schema import Run
    from specdeck.stats.model import Note, Summary


class Format(enum.StrEnum):
    """What `--format` prints instead of writing the report's files."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    README = "readme"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("report")(report)


def report(
    run_dir: Path = typer.Argument(..., metavar="RUN", help="Folder of a run, or its name in results/measured."),
    output: Format | None = typer.Option(None, "--format", help="Print only this, write nothing."),
    against: str | None = typer.Option(
        None, metavar="reference|FILE", help="Print published figures of the same model beside this run's."
    ),
) -> None:
    """Write summary.json, tables, pictures, report.md and report.html of RUN and print the tables."""
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for what a report needs

    folder = run_folder(run_dir)
    if against is not None:
        summary = _print_against(folder, against, output or Format.TERMINAL)
    elif output is None:
        summary = report_run(folder, Console())
    else:
        from specdeck.report.load import load  # noqa: PLC0415

        run, summary = load(folder)
        _print(folder, run, summary, output)
    damaged = tell_damaged(folder, summary.findings)
    if damaged or not (summary.rows or summary.quality):
        raise typer.Exit(EXIT_UNMEASURABLE)


def tell_damaged(folder: Path, notes: Sequence[Note]) -> bool:
    """Name the files of a run that could not be read, each with a fix; whether there were any."""
    from specdeck.report.load import DAMAGED  # noqa: PLC0415 - `--help` must not pay for it

    damaged = [note for note in notes if note.code == DAMAGED]
    for note in damaged:
        what = "its folder and give the command that measured the run" if note.cell_id else "it and make the check"
        error = SpecdeckError(
            f"{note.message}; the rest is reported without it",
            where=str(folder / (note.arm or "") / (note.cell_id or "")),
            fix=f"restore it from a copy, or remove {what} again",
        )
        typer.echo(str(error), err=True)
    return bool(damaged)


def _print_against(folder: Path, against: str, output: Format) -> Summary:
    from rich.console import Console  # noqa: PLC0415

    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.report.load import load  # noqa: PLC0415
    from specdeck.report.markdown import render_section  # noqa: PLC0415
    from specdeck.report.reference import beside, load_publications  # noqa: PLC0415
    from specdeck.report.terminal import print_table  # noqa: PLC0415

    if output not in (Format.TERMINAL, Format.MARKDOWN):
        raise SpecdeckError(
            f"published figures cannot be printed as {output.value}",
            where="--against",
            fix="--format terminal or --format markdown",
        )
    run, summary = load(folder)
    table = beside(run, summary, load_publications(against, repo_root()))
    if output is Format.TERMINAL:
        print_table(Console(), table)
    else:
        typer.echo(render_section(table))
    return summary


def report_run(run_dir: Path, console: Console) -> Summary:
    """Write every file of the report into the run's folder, print the tables and where the page is.

    Raises:
        SpecdeckError: the run cannot be read, or the report cannot be written.
    """
    from specdeck.report import write_all  # noqa: PLC0415
    from specdeck.report.load import load  # noqa: PLC0415
    from specdeck.report.terminal import print_summary  # noqa: PLC0415

    run, summary = load(run_dir)
    written = write_all(run_dir, run, summary)
    print_summary(summary, console)
    page = next(path for path in written if path.suffix == ".html")
    console.print(
        f"\nwritten: {_shown(page)} and {len(written) - 1} files beside it",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return summary


def _print(folder: Path, run: Run, summary: Summary, output: Format) -> None:
    if output is Format.TERMINAL:
        from rich.console import Console  # noqa: PLC0415

        from specdeck.report.terminal import print_summary  # noqa: PLC0415

        print_summary(summary, Console())
        return
    typer.echo(_text(folder, run, summary, output), nl=False)


def _text(folder: Path, run: Run, summary: Summary, output: Format) -> str:
    if output is Format.JSON:
        from specdeck.report.write import as_json  # noqa: PLC0415

        return as_json(summary)
    if output is Format.HTML:
        from specdeck.report import html  # noqa: PLC0415

        return html.render(run, summary)
    if output is Format.MARKDOWN:
        from specdeck.report import markdown  # noqa: PLC0415
        from specdeck.report.pictures import PICTURES  # noqa: PLC0415

        return markdown.render(run, summary, [p.file for p in PICTURES if (folder / p.file).is_file()])
    from specdeck.report.readme import snippet  # noqa: PLC0415

    return snippet(run, summary, _shown(folder))


def run_folder(given: Path) -> Path:
    """A folder as given, or the run of that name in results/measured.

    Raises:
        SpecdeckError: there is no such run.
    """
    if given.is_dir():
        return given
    from specdeck.paths import repo_root  # noqa: PLC0415

    measured = repo_root() / "results" / "measured"
    if given.name == str(given) and (measured / given).is_dir():
        return measured / given
    runs = sorted((path.parent for path in measured.glob("*/run.json")), key=lambda path: path.stat().st_mtime)
    newest = f"specdeck report {runs[-1].name}" if runs else "measure something first: make bench"
    raise SpecdeckError("there is no such run", where=str(given), fix=newest)


def _shown(path: Path) -> str:
    """A path relative to the checkout where it is inside, as documents and readers want it."""
    from specdeck.paths import repo_root  # noqa: PLC0415

    try:
        return path.resolve().relative_to(repo_root()).as_posix()
    except (ValueError, SpecdeckError):
        return str(path)
