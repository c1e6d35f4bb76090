"""`specdeck compare`: a candidate against a run or a baseline, judged by gates."""

from __future__ import annotations

import enum
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from specdeck.gates.measurement import Measurement
    from specdeck.gates.outcome import Outcome


class Format(enum.StrEnum):
    """What `--format` prints."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


FILES = {
    Format.JSON: "comparison.json",
    Format.CSV: "comparison.csv",
    Format.MARKDOWN: "comparison.md",
    Format.JUNIT: "junit.xml",
    Format.HTML: "comparison.html",
}
CLEARED_LOG = "cleared-alarms.jsonl"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("compare")(compare)


def compare(
    base: Path = typer.Argument(..., metavar="BASE", help="A run, or a baseline file (specdeck baseline set)."),
    candidate: Path = typer.Argument(..., metavar="CAND", help="The run to judge."),
    gates: str = typer.Option("default", help="Gates of bench/gates, or a gate file."),
    aa: Path | None = typer.Option(None, metavar="RUN", help="A repetition of BASE, for its noise floor."),
    confirm: list[Path] = typer.Option(
        [], metavar="RUN", help="CAND measured again (repeatable): rows that fail only once are cleared, and logged."
    ),
    allow_fingerprint_mismatch: bool = typer.Option(
        False, "--allow-fingerprint-mismatch", help="Compare across hardware, engine, recipe, plan or prompts; marked."
    ),
    output: Format = typer.Option(Format.TERMINAL, "--format", help="What to print."),
    write: Path | None = typer.Option(None, metavar="FOLDER", help="Also write every format into this folder."),
) -> None:
    """Compare CAND with BASE prompt by prompt. Exit code 0: gates pass, 1: one fails, 2: one could not be measured."""
    from specdeck.gates.confirm import confirmed  # noqa: PLC0415 - `--help` must not pay for numpy
    from specdeck.gates.evaluate import evaluate  # noqa: PLC0415
    from specdeck.gates.models import load_gates  # noqa: PLC0415
    from specdeck.gates.outcome import exit_code  # noqa: PLC0415

    judged_by = load_gates(gates)
    ours = _base(base, aa)
    theirs = _comparable(ours, read(candidate), allow=allow_fingerprint_mismatch)
    outcome = evaluate(ours, theirs, judged_by)
    if confirm:
        again = [_comparable(theirs, read(run), allow=False) for run in confirm]
        _distinct(outcome, again)
        outcome = confirmed(outcome, [evaluate(ours, run, judged_by) for run in again], judged_by.confirm)
        _log_cleared(outcome, confirm[0])
    if write is not None:
        _write(outcome, write)
    _print(outcome, output)
    raise typer.Exit(exit_code(outcome))


def read(given: Path) -> Measurement:
    """Read a run folder, the name of a run, or a baseline file.

    Raises:
        SpecdeckError: there is none, or it is damaged.
    """
    from specdeck.cli.report import run_folder  # noqa: PLC0415
    from specdeck.gates.baseline import read_baseline  # noqa: PLC0415
    from specdeck.gates.measurement import measurement  # noqa: PLC0415
    from specdeck.report.load import load_checks, load_requests  # noqa: PLC0415

    if given.suffix == ".json" and not given.is_dir():
        return read_baseline(given)
    folder = run_folder(given)
    run, cells, damaged = load_requests(folder)
    checks, unread = load_checks(folder)
    return measurement(run, cells, checks, [*damaged, *unread])


def _base(given: Path, aa: Path | None) -> Measurement:
    from dataclasses import replace  # noqa: PLC0415

    from specdeck.gates.baseline import floors_of  # noqa: PLC0415

    base = read(given)
    if aa is None:
        return base
    if base.floors:
        raise SpecdeckError(
            "this baseline has a noise floor of its own", where=str(given), fix="leave --aa out, or name a run as BASE"
        )
    repetition = read(aa)
    return replace(base, floors=floors_of(base, repetition), floor_from=repetition.name)


def _comparable(base: Measurement, candidate: Measurement, *, allow: bool) -> Measurement:
    from specdeck.gates.measurement import mismatches  # noqa: PLC0415

    differ = mismatches(base, candidate)
    if differ and not allow:
        lines = [f"  {name}: {ours or 'not known'} → {theirs or 'not known'}" for name, ours, theirs in differ]
        raise SpecdeckError(
            "\n".join(["the two were not measured in the same way in the same place:", *lines]),
            where=candidate.name,
            fix="measure the base again here, or add --allow-fingerprint-mismatch: the report then says so",
        )
    return candidate


def _distinct(outcome: Outcome, again: list[Measurement]) -> None:
    """A run cannot confirm or clear itself.

    Raises:
        SpecdeckError: a run is named twice.
    """
    seen = {outcome.base.name, outcome.candidate.name}
    for run in again:
        if run.name in seen:
            raise SpecdeckError(
                "this run is already one of those compared: it cannot clear an alarm of its own",
                where=run.name,
                fix="measure once more (specdeck bench … --fresh) and name that run with --confirm",
            )
        seen.add(run.name)


def _log_cleared(outcome: Outcome, confirm: Path) -> None:
    """Append cleared alarms to a log beside the runs, so that chronic ones show."""
    import msgspec  # noqa: PLC0415

    from specdeck.results.atomic import storing  # noqa: PLC0415

    cleared = [gate for gate in outcome.gates if gate.cleared]
    if not cleared:
        return
    from specdeck.cli.report import run_folder  # noqa: PLC0415

    path = run_folder(confirm).parent / CLEARED_LOG
    with storing("the log of cleared alarms", path), path.open("ab") as file:
        for gate in cleared:
            entry = {
                "base": outcome.base.name,
                "candidate": outcome.candidate.name,
                "at": outcome.candidate.created_at,
                "gate": gate.name,
                "summary": gate.summary,
            }
            file.write(msgspec.json.encode(entry) + b"\n")


def _write(outcome: Outcome, folder: Path) -> None:
    from specdeck.results.atomic import replace_file, storing  # noqa: PLC0415

    with storing("the comparison", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for kind, name in FILES.items():
            replace_file(folder / name, _text(outcome, kind).encode())


def _print(outcome: Outcome, output: Format) -> None:
    if output is Format.TERMINAL:
        from rich.console import Console  # noqa: PLC0415

        from specdeck.report.compare.terminal import print_outcome  # noqa: PLC0415

        print_outcome(outcome, Console())
        return
    typer.echo(_text(outcome, output), nl=False)


def _text(outcome: Outcome, output: Format) -> str:
    from specdeck.report.compare import data, html, junit, markdown  # noqa: PLC0415

    render = {
        Format.JSON: data.as_json,
        Format.CSV: data.as_csv,
        Format.MARKDOWN: markdown.render,
        Format.JUNIT: junit.render,
        Format.HTML: html.render,
    }
    return render[output](outcome)
