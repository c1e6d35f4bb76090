"""Checks that the local checkpoints of a recipe are there before anything starts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import display

if TYPE_CHECKING:
    from specdeck.recipe.models import Checkpoint

# Larger files are hashed only when asked: a start must not read 60 GB twice.
HASHED_AT_START = 256 * 2**20
_CHUNK = 2**20


def checkpoint_folder(checkpoint: Checkpoint, root: Path) -> Path | None:
    """Return the absolute local folder of a checkpoint; None for one that is a repository."""
    if checkpoint.path is None:
        return None
    return (root / checkpoint.path).resolve()


def check_files(checkpoint: Checkpoint, role: str, root: Path, *, all_hashes: bool = False) -> None:
    """Check that a local checkpoint is whole: config.json, weights that are not empty, and pinned hashes.

    Args:
        checkpoint: repositories are passed over: they are fetched by the engine.
        role: `target` or `drafter`, for messages.
        root: the checkout.
        all_hashes: hash files above 256 MiB too.

    Raises:
        SpecdeckError: files are missing, empty or not those the recipe pins.
    """
    folder = checkpoint_folder(checkpoint, root)
    if folder is None:
        return
    shown = display(folder, root)
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        missing.append("*.safetensors")
    if missing:
        raise SpecdeckError(
            f"the {role} checkpoint has no {' and no '.join(missing)}",
            where=shown,
            fix=_restore(folder, root),
        )
    for path in weights:
        if path.stat().st_size < 16:
            raise SpecdeckError(f"the {role} weights {path.name} are empty", where=shown, fix=_restore(folder, root))
    for name, expected in checkpoint.sha256.items():
        path = folder / name
        if not path.is_file():
            raise SpecdeckError(f"the {role} file {name} is missing", where=shown, fix=_restore(folder, root))
        if not all_hashes and path.stat().st_size > HASHED_AT_START:
            continue
        if _sha256(path) != expected:
            raise SpecdeckError(
                f"the {role} file {name} is not the one this recipe pins (sha256 differs)",
                where=f"{shown}/{name}",
                fix=f"{_restore(folder, root)}; or pin the new file in the recipe",
            )


def _restore(folder: Path, root: Path) -> str:
    shown = display(folder, root)
    if not Path(shown).is_absolute():
        return f"git checkout -- {shown}"
    return f"put the checkpoint into {shown}, or correct `path` in the recipe"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
