"""`specdeck engine`: the managed CPU engine environment."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="The managed engine environment (vLLM's CPU build).", no_args_is_help=True)
    group.command("setup")(setup)
    app.add_typer(group, name="engine")


def setup() -> None:
    """Install or repair .venv-engine, the vLLM CPU build that `tiny-next-cpu` runs on."""
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from specdeck.engine.install import ensure_engine  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415

    console = Console()
    ensure_engine(
        repo_root() / ".venv-engine", progress=lambda text: console.print(text, markup=False, highlight=False)
    )
