"""`specdeck tune`: which draft length, from what was measured."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.report.step_times import Profile
    from specdeck.results.schema import Run
    from specdeck.stats.tune import Advice


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("tune")(tune)


def tune(
    runs: list[Path] = typer.Argument(..., metavar="RUN...", help="Runs of one target, prompt set and host."),
    profile: str | None = typer.Option(
        None, help="Step times measured elsewhere: an id of results/reference/step-times.yml, or a file of that form."
    ),
    max_n: int | None = typer.Option(
        None, min=1, max=64, help="Longest draft to predict. Default: what the drafter was trained for, else measured."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Predict output tok/s at every draft length, mark what was measured, and name the best for each concurrency.

    Exit code 2 when no length can be recommended anywhere, or a damaged cell had to be left out.
    """
    import msgspec  # noqa: PLC0415 - `--help` must not pay for numpy

    from specdeck.cli.report import run_folder, tell_damaged  # noqa: PLC0415
    from specdeck.errors import EXIT_UNMEASURABLE  # noqa: PLC0415
    from specdeck.report.load import load_requests  # noqa: PLC0415
    from specdeck.report.step_times import load_profile  # noqa: PLC0415
    from specdeck.report.tune import advice  # noqa: PLC0415

    times = load_profile(profile) if profile is not None else None
    folders = [run_folder(path) for path in runs]
    read = [load_requests(folder) for folder in folders]
    loaded = [(run, cells) for run, cells, _ in read]
    found = advice(loaded, times, max_n, {run.run_id: _trained(run) for run, _ in loaded})
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        _print(found, [run for run, _ in loaded], times)
    damaged = [tell_damaged(folder, notes) for folder, (_, _, notes) in zip(folders, read, strict=True)]
    if any(damaged) or not any(item.best is not None for item in found):
        raise typer.Exit(EXIT_UNMEASURABLE)


def _print(found: Sequence[Advice], runs: Sequence[Run], times: Profile | None) -> None:
    from rich.console import Console  # noqa: PLC0415

    from specdeck.report.terminal import print_line, print_table  # noqa: PLC0415
    from specdeck.report.tune import sentence, table  # noqa: PLC0415
    from specdeck.stats.model import CPU_NOTICE  # noqa: PLC0415

    console = Console()
    if times is not None:
        print_line(console, f"step times: {times.hardware}; {times.engine} ({times.source})", "dim")
    notice = CPU_NOTICE if times is None and any(run.device == "cpu" for run in runs) else None
    for item in found:
        if item.points:
            print_table(console, table(item, notice))
        print_line(console, sentence(item), "bold")
        console.print()
    if not found:
        print_line(console, "nothing to recommend: no arm drafts, or the profile has no such method and concurrency")


def _trained(run: Run) -> int | None:
    """The longest draft that the run's drafter was trained for, where its config.json is known here."""
    from pydantic import ValidationError  # noqa: PLC0415

    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe.models import Recipe  # noqa: PLC0415
    from specdeck.rules.gather import gather  # noqa: PLC0415

    try:
        drafter = gather(Recipe.model_validate(run.recipe), repo_root()).get("drafter")
    except (ValidationError, SpecdeckError):
        return None  # a run of an attached server, or of a checkpoint that is gone: measured lengths must do
    block = drafter.integer("dflash_config", "block_size") if drafter else None
    return block - 1 if isinstance(block, int) and block > 1 else None
