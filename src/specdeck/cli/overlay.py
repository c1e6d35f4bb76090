"""`specdeck overlay`: builds the model overlays a recipe calls for."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("overlay")(overlay)


def overlay(
    recipe: str | None = typer.Option(None, help="Build the overlays this recipe names."),
    drafter: Path | None = typer.Option(None, help="Build a drafter position table over this folder instead."),
    positions: int = typer.Option(524_288, min=1, max=2**24, help="Positions, with --drafter."),
    only: str | None = typer.Option(None, help="With --recipe: only `target` or `drafter`."),
) -> None:
    """Link a checkpoint's weights beside a changed config.json, and say what changed and why."""
    from specdeck.errors import SpecdeckError  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.overlay.build import build  # noqa: PLC0415
    from specdeck.overlay.spec import load_overlay  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415
    from specdeck.recipe.models import Checkpoint  # noqa: PLC0415

    root = repo_root()
    if (recipe is None) == (drafter is None):
        raise SpecdeckError("give either --recipe or --drafter", where="specdeck overlay", fix="--recipe NAME")
    wanted = []
    if drafter is not None:
        table = load_overlay("positions-512k", root)
        table = table.model_copy(update={"set": {"max_position_embeddings": positions}})
        wanted.append(("drafter", table, Checkpoint(path=str(drafter.absolute()))))
    elif recipe is not None:
        loaded = load_recipe(recipe)
        for role, name, checkpoint in (
            ("target", loaded.overlays.target, loaded.target),
            ("drafter", loaded.overlays.drafter, loaded.drafter),
        ):
            if name and checkpoint and only in (None, role):
                wanted.append((role, load_overlay(name, root), checkpoint))
        if not wanted:
            typer.echo(f"{loaded.name} needs no overlay")
    for role, spec, checkpoint in wanted:
        done = build(spec, checkpoint, role, root)
        typer.echo(f"{role}: {'built' if done.built else 'current'} {done.folder}")
        typer.echo(f"  why: {done.reason}")
        if spec.needless_from:
            typer.echo(f"  not needed from vLLM {spec.needless_from} on (rope: {', '.join(spec.needless_rope_types)})")
        for line in done.changes:
            typer.echo(f"  {line}")
