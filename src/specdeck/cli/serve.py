"""`specdeck serve`: serve one arm of a recipe in the foreground."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specdeck.recipe import Recipe


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("serve")(serve)


def serve(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: str = typer.Option(None, help="Arm to serve [default: the one with DFlash, else MTP, else the first]."),
    port: int = typer.Option(8000, min=1, max=65535, help="Port to listen on."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the exact command and environment, and start nothing."
    ),
    python: Path = typer.Option(None, help="Python that has vLLM; means runtime local."),
    runtime: str = typer.Option(None, help="Override the recipe's runtime: local."),
    allow: list[str] = typer.Option(None, metavar="ID", help="Start although this rule finds an error. Repeatable."),
) -> None:
    """Serve RECIPE until Ctrl-C. VLLM_API_KEY, when set, is required of every request."""
    from specdeck.cli.rules import before_start  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.engine.command import build_command, known_arm  # noqa: PLC0415
    from specdeck.engine.environment import named_python  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root()
    loaded = _with_runtime(load_recipe(recipe), runtime)
    chosen = arm or default_arm(loaded)
    known_arm(loaded, chosen)
    api_key = bool(os.environ.get("VLLM_API_KEY"))
    # Built once before anything is installed, so that mistakes are told at once.
    named = named_python(root, python)
    before_start(recipe, [chosen], python=named, allowed=allow or [], refuse_errors=not dry_run)
    folders = folders_for(loaded, chosen, root, _aside if dry_run else _say, dry=dry_run)
    command = build_command(
        loaded, chosen, python=named, host=host, port=port, root=root, folders=folders, api_key=api_key
    )
    if dry_run:
        typer.echo(command.shell())
        return
    raise typer.Exit(_serve(loaded, chosen, named, host, port, root, api_key=api_key))


def _serve(recipe: Recipe, arm: str, python: Path | None, host: str, port: int, root: Path, *, api_key: bool) -> int:
    import asyncio  # noqa: PLC0415

    from specdeck.engine.claims import Expectation  # noqa: PLC0415
    from specdeck.engine.command import build_command  # noqa: PLC0415
    from specdeck.engine.environment import engine_python  # noqa: PLC0415
    from specdeck.engine.foreground import serve_foreground  # noqa: PLC0415
    from specdeck.engine.ports import require_free  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415

    require_free(host, port)
    expectation = Expectation.of(recipe, arm, root=root)
    interpreter = engine_python(recipe, root, python=python, progress=_say)
    folders = folders_for(recipe, arm, root, _quiet)
    command = build_command(
        recipe, arm, python=interpreter, host=host, port=port, root=root, folders=folders, api_key=api_key
    )
    log = root / ".cache" / "serve" / f"{recipe.name}-{arm}-{port}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    _say(command.shell())
    if host not in ("127.0.0.1", "::1", "localhost") and not api_key:
        _say("specdeck: anyone who reaches this machine can use the server; export VLLM_API_KEY to ask for a key")
    return asyncio.run(serve_foreground(command, expectation, log, timeout_s=recipe.engine.ready_timeout_s, say=_say))


def default_arm(recipe: Recipe) -> str:
    """Return the arm to serve when none is named: the one with DFlash, else MTP, else the first."""
    available = {name: arm for name, arm in recipe.arms.items() if not arm.unavailable}
    for method in ("dflash", "mtp"):
        for name, arm in available.items():
            if arm.method == method:
                return name
    return next(iter(available or recipe.arms))


def _with_runtime(recipe: Recipe, runtime: str | None) -> Recipe:
    from specdeck.errors import SpecdeckError  # noqa: PLC0415

    if runtime is None:
        return recipe
    if runtime != "local":
        raise SpecdeckError(
            f"there is no runtime {runtime!r} to override with", where="--runtime", fix="--runtime local, or none"
        )
    return recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"runtime": "local"})})


def _aside(text: str) -> None:
    """Say it beside the command, which is all that a dry run prints."""
    typer.echo(f"specdeck: {text}", err=True)


def _quiet(text: str) -> None:
    """Say nothing: it has been said before."""


def _say(text: str) -> None:
    typer.echo(text)
