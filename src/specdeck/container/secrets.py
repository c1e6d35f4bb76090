"""Secrets on their way into a container: files in memory that only their owner can read, gone when it is stopped."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Mapping


def keep(name: str, values: Mapping[str, str]) -> dict[str, Path]:
    """Write secrets for the container `name` and return the file of each.

    They lie in XDG_RUNTIME_DIR or /dev/shm, so never on a disk, in a folder of mode 0700.

    Raises:
        SpecdeckError: there is no such place, or the folder belongs to somebody else.
    """
    if not values:
        return {}
    forget(name)
    folder = _base(make=True) / name
    folder.mkdir(mode=0o700)
    found = {}
    for key, value in values.items():
        path = folder / key
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(value)
        found[key] = path
    return found


def forget(name: str) -> None:
    """Remove the secrets of a container; a second call does nothing."""
    shutil.rmtree(_base(make=False) / name, ignore_errors=True)


def _base(*, make: bool) -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    memory = Path(runtime) if runtime and Path(runtime).is_dir() else Path("/dev/shm")  # noqa: S108 - checked below
    base = memory / f"specdeck-{os.getuid()}"
    if not make:
        return base
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError as error:
        raise _unusable(base, str(error.strerror)) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise _unusable(base, "it is not a folder that is yours alone")
    return base


def _unusable(base: Path, why: str) -> SpecdeckError:
    return SpecdeckError(
        f"a secret cannot be kept in memory: {why}",
        where=str(base),
        fix="remove that path, or give the secrets as files: --api-key-file PATH --hf-token-file PATH",
    )
