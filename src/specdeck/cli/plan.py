"""`specdeck plan`: whether a recipe fits its GPUs, and how many requests its KV cache holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specdeck.planner.plan import ArmPlan
    from specdeck.recipe import Recipe


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("plan")(plan)


def plan(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: str = typer.Option(None, help="Only this arm [default: all]."),
    context: int = typer.Option(None, min=1, max=2**31, help="Tokens of one request [default: max_model_len]."),
    hashes: bool = typer.Option(False, "--hashes", help="Hash local weights the recipe pins; reads every byte."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON; null means not known."),
) -> None:
    """Say what RECIPE needs on each GPU. Downloads nothing: uses local files, else published facts (models/*.yml)."""
    from specdeck.checkpoint import load_facts  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.checkpoint.folder import check_hashes, locate  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.planner.plan import plan_arm  # noqa: PLC0415
    from specdeck.planner.text import render  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root()
    loaded = load_recipe(recipe)
    names = [_known(loaded, arm)] if arm else list(loaded.arms)
    for checkpoint in (loaded.target, loaded.drafter):
        located = locate(checkpoint, root) if hashes and checkpoint else None
        if located and checkpoint:
            check_hashes(located.folder, checkpoint.sha256)
    target = load_facts(loaded.target, root)
    drafter = load_facts(loaded.drafter, root) if loaded.drafter else None
    plans = [plan_arm(loaded, name, target, drafter, context=context) for name in names]
    if as_json:
        typer.echo(json.dumps({"recipe": loaded.name, "arms": [found.as_json() for found in plans]}, indent=1))
    else:
        typer.echo("\n\n".join([_head(loaded), *(render(found) for found in plans)]))
    raise typer.Exit(_status(plans))


def _known(recipe: Recipe, arm: str) -> str:
    from specdeck.engine.command import known_arm  # noqa: PLC0415

    if arm not in recipe.arms:
        known_arm(recipe, arm)
    return arm


def _head(recipe: Recipe) -> str:
    hardware = recipe.hardware
    cards = f"{hardware.gpus}×{hardware.class_}" if hardware.gpus else hardware.class_
    return f"{recipe.title} ({cards}); figures are for one GPU"


def _status(plans: list[ArmPlan]) -> int:
    from specdeck.errors import EXIT_FAILED, EXIT_OK  # noqa: PLC0415

    return EXIT_FAILED if any(found.fits == "no" for found in plans) else EXIT_OK
