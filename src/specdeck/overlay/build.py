"""Builds an overlay directory: links to every file of a checkpoint, and a rewritten config.json. Atomic, idempotent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.checkpoint.folder import locate, shards
from specdeck.checkpoint.headers import read_header
from specdeck.checkpoint.jsonfile import read_object
from specdeck.errors import SpecdeckError
from specdeck.overlay.spec import apply

if TYPE_CHECKING:
    from specdeck.overlay.spec import Overlay
    from specdeck.recipe.models import Checkpoint

STAMP = ".overlay.json"


@dataclass(frozen=True)
class Built:
    """An overlay directory: where it lies, whether it was built now, and what it changes."""

    folder: Path
    built: bool
    changes: tuple[str, ...]
    reason: str


def overlays_folder(root: Path) -> Path:
    """Return where overlays are built; nothing is written anywhere else."""
    return root / ".cache" / "overlays"


def folder_of(overlay: Overlay, checkpoint: Checkpoint, role: str, root: Path) -> Path:
    """Return where the overlay of a checkpoint lies, built or not.

    Raises:
        SpecdeckError: the overlay's name would make vLLM guess a method from the path.
    """
    # "dflash" in a path makes vLLM guess the method: the repository enters the name only as a hash.
    key = hashlib.sha256(checkpoint.where.encode()).hexdigest()[:8]
    folder = overlays_folder(root) / f"{role}-{overlay.name}-{key}"
    if "dflash" in folder.name:
        raise SpecdeckError("an overlay's name may not contain dflash", where=overlay.name, fix="rename the overlay")
    return folder


def build(overlay: Overlay, checkpoint: Checkpoint, role: str, root: Path, *, cache: Path | None = None) -> Built:
    """Build the overlay of a checkpoint, or keep the one that is current.

    Args:
        overlay: what changes.
        checkpoint: its source; must be on this machine with its weights.
        role: `target` or `drafter`.
        root: the checkout.
        cache: the Hugging Face cache, instead of the one the environment names.

    Raises:
        SpecdeckError: the source is absent, has no weights (also: refs/main moved and the new snapshot has none), or
            its config is not the one the overlay is for.
    """
    located = locate(checkpoint, root, cache=cache)
    if located is None:
        raise SpecdeckError(
            f"the {role} {checkpoint.where} is not on this machine at the revision the recipe means",
            where=f"overlay {overlay.name}",
            fix=_download(checkpoint),
        )
    source = located.folder
    weights = shards(source)
    if not weights:
        raise SpecdeckError(
            f"the {role} has a config.json and no weights",
            where=str(source),
            fix="finish the download; if refs/main has moved, fetch the new revision whole or pin `revision`",
        )
    for path in weights:
        read_header(path)
    config, changes = apply(overlay, read_object(source / "config.json"), str(source / "config.json"))
    files = sorted(path.name for path in source.iterdir() if path.name not in ("config.json", STAMP))
    stamp: dict[str, object] = {
        "overlay": overlay.model_dump(mode="json"),
        "source": str(source),
        "revision": located.revision,
        "files": {name: str((source / name).resolve()) for name in files},
        "config": config,
    }
    folder = folder_of(overlay, checkpoint, role, root)
    if _current(folder, stamp):
        return Built(folder, built=False, changes=tuple(changes), reason=overlay.reason)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name in files:
            (fresh / name).symlink_to((source / name).resolve())
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (fresh / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        fresh.chmod(0o755)
        _replace(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return Built(folder, built=True, changes=tuple(changes), reason=overlay.reason)


def _download(checkpoint: Checkpoint) -> str:
    if checkpoint.repo is None:
        return f"put the checkpoint into {checkpoint.path}, or correct the path"
    revision = f" --revision {checkpoint.revision}" if checkpoint.revision else ""
    return f"hf download {checkpoint.repo}{revision} (if refs/main has moved, the new revision's weights are needed)"


def _current(folder: Path, stamp: dict[str, object]) -> bool:
    try:
        return (
            json.loads((folder / STAMP).read_text(encoding="utf-8")) == json.loads(json.dumps(stamp))
            and json.loads((folder / "config.json").read_text(encoding="utf-8")) == stamp["config"]
            and all(path.exists() for path in folder.iterdir())
        )
    except (OSError, ValueError):
        return False


def _replace(fresh: Path, folder: Path) -> None:
    """Put the new directory in place of the old one, which is moved aside first and then removed."""
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    try:
        if folder.exists() or folder.is_symlink():
            os.replace(folder, old / "x")  # noqa: PTH105 - Path.replace would do the same
        fresh.rename(folder)
    finally:
        shutil.rmtree(old, ignore_errors=True)
