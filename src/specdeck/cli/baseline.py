"""`specdeck baseline`: write the file that later runs are compared with."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="The measurement that later runs are compared with.", no_args_is_help=True)
    group.callback()(_group)  # keeps `set` a word of its own although it is the only command
    group.command("set")(set_baseline)
    app.add_typer(group, name="baseline")


def _group() -> None:
    """The measurement that later runs are compared with."""


def set_baseline(
    run: Path = typer.Argument(..., metavar="RUN", help="A complete run without invalid cells."),
    aa: Path | None = typer.Option(None, metavar="RUN2", help="The same measured again: the noise floor of each row."),
    output: Path | None = typer.Option(None, metavar="FILE", help="Default: bench/baselines/RECIPE-PLAN.json."),
) -> None:
    """Write RUN as a baseline file, for review and commit. Without --aa, times cannot be judged against it."""
    from specdeck.cli.compare import read  # noqa: PLC0415 - `--help` must not pay for numpy
    from specdeck.gates.baseline import encode, make_baseline  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.results.atomic import replace_file, storing  # noqa: PLC0415

    measured = read(run)
    made = make_baseline(measured, read(aa) if aa is not None else None)
    recipe, plan = ((measured.fingerprint[part] or "?").split()[0] for part in ("recipe", "plan"))
    path = output or repo_root() / "bench" / "baselines" / f"{recipe}-{plan}.json"
    with storing("the baseline", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, encode(made))
    typer.echo(f"written: {path}")
    if aa is None:
        typer.echo("It has no noise floor, so regressions are unmeasurable against it.")
        typer.echo("  Fix: measure the same again with --fresh and name that run with --aa")
