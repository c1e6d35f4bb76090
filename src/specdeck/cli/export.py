"""`specdeck export`: a run in the forms that other tools read."""

from __future__ import annotations

import enum
from pathlib import Path  # noqa: TC003 - typer reads the annotations

import typer


class Format(enum.StrEnum):
    """Forms of other tools."""

    VLLM_BENCH = "vllm-bench"
    PROMETHEUS = "prometheus"
    PARQUET = "parquet"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("export")(export)


def export(
    run_dir: Path = typer.Argument(..., metavar="RUN", help="Folder of a run, or its name in results/measured."),
    form: Format = typer.Option(
        ..., "--format", help="vllm-bench: a result file a cell. prometheus: a textfile. parquet: all requests."
    ),
    output: Path | None = typer.Option(None, metavar="FOLDER", help="Where to write. Default: RUN/export."),
    metric_percentiles: str = typer.Option(
        "50,90,99", metavar="LIST", help="Percentiles in vllm-bench files, 0 to 100, separated by commas."
    ),
) -> None:
    """Write RUN as other tools expect it: result files of `vllm bench serve`, a Prometheus textfile, or Parquet.

    A damaged cell is named and left out; the exit code is 2 then.
    """
    from specdeck.cli.report import run_folder, tell_damaged  # noqa: PLC0415 - `--help` must not pay for numpy
    from specdeck.errors import EXIT_UNMEASURABLE  # noqa: PLC0415
    from specdeck.report.export import write  # noqa: PLC0415
    from specdeck.results.atomic import storing  # noqa: PLC0415

    percentiles = _percentiles(metric_percentiles)
    folder = run_folder(run_dir)
    target = output or folder / "export"
    with storing("the export", target):
        if form is Format.PROMETHEUS:
            written, damaged = write.prometheus_textfile(folder, target)
        elif form is Format.PARQUET:
            written, damaged = write.parquet_table(folder, target)
        else:
            written, damaged = write.vllm_bench_files(folder, target, percentiles)
    typer.echo(f"written: {written} file{'s' if written != 1 else ''} in {target}")
    if tell_damaged(folder, damaged):
        raise typer.Exit(EXIT_UNMEASURABLE)


def _percentiles(text: str) -> tuple[float, ...]:
    from specdeck.errors import SpecdeckError  # noqa: PLC0415

    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 <= value <= 100 for value in found):
        raise SpecdeckError(
            f"not a list of percentiles: {text!r}",
            where="--metric-percentiles",
            fix="give numbers from 0 to 100 separated by commas, for example --metric-percentiles 50,90,99.9",
        )
    return found
