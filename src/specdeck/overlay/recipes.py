"""The overlays one arm of a recipe needs: built, or left out where the engine does without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from specdeck.recipe.models import Recipe


def folders_for(
    recipe: Recipe, arm_name: str, root: Path, say: Callable[[str], None], *, dry: bool = False
) -> dict[str, Path]:
    """Build what an arm needs and return the folders to serve, by `target` and `drafter`.

    With `dry` nothing is built, and nothing has to be on this machine: the folders are those that would be.

    Raises:
        SpecdeckError: as build and load_overlay; the arm is not in the recipe only by a caller's mistake.
    """
    drafting = recipe.arms[arm_name].method == "dflash"
    wanted = (
        ("target", recipe.overlays.target, recipe.target),
        ("drafter", recipe.overlays.drafter if drafting else None, recipe.drafter),
    )
    folders: dict[str, Path] = {}
    for role, name, checkpoint in wanted:
        if name is None or checkpoint is None:
            continue
        from specdeck.checkpoint.folder import locate  # noqa: PLC0415 - most recipes have no overlay
        from specdeck.checkpoint.jsonfile import read_object  # noqa: PLC0415
        from specdeck.overlay.build import build, folder_of  # noqa: PLC0415
        from specdeck.overlay.spec import load_overlay, needless  # noqa: PLC0415

        overlay = load_overlay(name, root)
        located = locate(checkpoint, root)
        lowest = lowest_version(recipe.engine.vllm)
        if located and lowest and needless(overlay, read_object(located.folder / "config.json"), lowest):
            say(f"{role}: overlay {name} is not needed from vLLM {overlay.needless_from} on")
            folders[role] = located.folder
            continue
        if dry:
            folders[role] = folder_of(overlay, checkpoint, role, root)
            say(f"{role}: overlay {name} would be built: {overlay.reason}")
            continue
        done = build(overlay, checkpoint, role, root)
        folders[role] = done.folder
        say(f"{role}: overlay {name} {'built' if done.built else 'is current'}: {done.reason}")
        for line in done.changes:
            say(f"{role}: {line}")
    return folders


def lowest_version(specifier: str) -> str | None:
    """Return the lowest version a PEP 440 specifier admits; None when it has no lower bound."""
    bounds = [clause.version for clause in SpecifierSet(specifier) if clause.operator in (">=", "==", "~=")]
    return bounds[0].removesuffix(".*") if len(bounds) == 1 else None
