"""`specdeck quality` and `specdeck smoke`: whether an arm's server is still the same model."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from specdeck.quality.runner import Outcome
    from specdeck.results.store import RunStore
    from specdeck.run.options import Options
    from specdeck.run.progress import Reporter

DEFAULT_RECIPE = "tiny-next-cpu"
_RECIPE = typer.Argument(None, help=f"Recipe name or file [default: {DEFAULT_RECIPE}].")
_ARM = typer.Option([], help="Only this arm (repeatable). Without the arm none there is less to compare with.")
_URL = typer.Option([], help="Check a running server: URL or ARM=URL (repeatable).")
_PYTHON = typer.Option(None, help="Python that has vLLM, for recipes without a managed environment.")
_RESULTS = typer.Option(None, help="Folder that gets the run [default: results/measured].")
_RUN = typer.Option(None, help="Put the results beside the cells of this run, where gates and reports look for them.")
_CHECK = typer.Option([], help="Only this check (repeatable) [default: all].")
_FRESH = typer.Option(False, "--fresh", help="Start anew even where an unfinished run could continue.")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("quality")(quality)
    app.command("smoke")(smoke)


def quality(
    recipe: str | None = _RECIPE,
    arm: list[str] = _ARM,
    base_url: list[str] = _URL,
    check: list[str] = _CHECK,
    limit: int | None = typer.Option(None, min=1, help="No more questions a check than this."),
    python: Path | None = _PYTHON,
    results: Path | None = _RESULTS,
    run: Path | None = _RUN,
    fresh: bool = _FRESH,
) -> None:
    """Check thoroughly that every arm of RECIPE is still the same model. Results: RUN/quality/CHECK-ARM.json.

    An interrupted run continues when the same command is given again. Exit code 1: a check failed; 2: one could not be
    made.
    """
    from specdeck.quality.registry import CHECKS  # noqa: PLC0415 - `--help` must not pay for what checks need

    _check(recipe, arm, base_url, check or list(CHECKS), python, results, run, fresh=fresh, quick=False, limit=limit)


def smoke(
    recipe: str | None = _RECIPE,
    arm: list[str] = _ARM,
    base_url: list[str] = _URL,
    python: Path | None = _PYTHON,
    results: Path | None = _RESULTS,
    run: Path | None = _RUN,
    fresh: bool = _FRESH,
) -> None:
    """Check in minutes that every arm of RECIPE is still the same model; `specdeck quality` looks closer."""
    from specdeck.quality.registry import SMOKE  # noqa: PLC0415

    _check(recipe, arm, base_url, SMOKE, python, results, run, fresh=fresh, quick=True, limit=None)


def _check(
    recipe: str | None,
    arms: list[str],
    base_urls: list[str],
    checks: list[str] | tuple[str, ...],
    python: Path | None,
    results: Path | None,
    run: Path | None,
    *,
    fresh: bool,
    quick: bool,
    limit: int | None,
) -> None:
    import asyncio  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from specdeck.engine.environment import engine_python  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.quality.registry import choose  # noqa: PLC0415
    from specdeck.run.options import resolve  # noqa: PLC0415
    from specdeck.run.progress import ConsoleReporter  # noqa: PLC0415

    root = repo_root()
    chosen = choose(checks)
    if recipe is None and not base_urls:
        recipe = DEFAULT_RECIPE
    plan = "smoke-quality" if quick else "quality"
    options = resolve(root, recipe_name=recipe, plan_name=plan, arms=arms, base_urls=base_urls, python=python)
    with ConsoleReporter(Console()) as reporter:
        reporter.line(f"{options.recipe_name}: arms {', '.join(options.arms)}; {', '.join(c.name for c in chosen)}")
        interpreter = None
        if not options.attached:
            assert options.recipe is not None
            interpreter = engine_python(options.recipe, root, python=python, progress=reporter.line)
        store = _store(options, results, run, root, reporter, fresh=fresh)

        async def work() -> Outcome:
            from specdeck.cli.bench import servers_for, stop_on_signals  # noqa: PLC0415
            from specdeck.quality.runner import make_checks  # noqa: PLC0415

            stop_on_signals()
            servers = servers_for(options, store, interpreter, reporter)
            return await make_checks(options, store, servers, chosen, reporter, quick=quick, limit=limit)

        try:
            outcome = asyncio.run(work())
        except (KeyboardInterrupt, asyncio.CancelledError) as stop:
            raise SpecdeckError(
                "interrupted: what was observed is kept, servers are stopped",
                where=str(store.path),
                fix="run the same command again: it continues where it stopped",
            ) from stop
        reporter.line(f"results: {store.path / 'quality'}")
    for name, error in outcome.failures.items():
        typer.echo(f"\narm {name} failed\n{error}")
    raise typer.Exit(outcome.exit_code())


def _store(
    options: Options, results: Path | None, run: Path | None, root: Path, reporter: Reporter, *, fresh: bool
) -> RunStore:
    from specdeck.cli.report import run_folder  # noqa: PLC0415
    from specdeck.results.store import RunStore  # noqa: PLC0415
    from specdeck.run.experiment import open_store  # noqa: PLC0415

    if run is None:
        return open_store(
            options, results.absolute() if results else root / "results" / "measured", fresh=fresh, reporter=reporter
        )
    store = RunStore.open(run_folder(run), write=True)
    measured = store.run().recipe_name
    if measured != options.recipe_name:
        store.close()
        raise SpecdeckError(
            f"that run measured {measured}, not {options.recipe_name}",
            where=str(store.path),
            fix=f"specdeck quality {measured} --run {store.path}",
        )
    return store
