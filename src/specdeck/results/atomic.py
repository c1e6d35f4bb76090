"""Files that appear whole or not at all: written beside, flushed to the disk, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

TEMPORARY_PREFIX = ".writing-"
PART_BYTES = 2**20

_FIXES = {
    errno.ENOSPC: "free some space on that disk, then run the same command again: finished cells are kept",
    errno.EDQUOT: "free some of your quota, then run the same command again: finished cells are kept",
    errno.EFBIG: "raise the file size limit (ulimit -f), then run the same command again: finished cells are kept",
    errno.EACCES: "make the folder writable for this user, then run the same command again",
    errno.EPERM: "make the folder writable for this user, then run the same command again",
    errno.EROFS: "use a results folder on a writable disk",
}


@contextmanager
def storing(what: str, where: Path) -> Iterator[None]:
    """Turn an OSError into the error a user sees.

    Raises:
        SpecdeckError: `what` could not be written to `where`.
    """
    try:
        yield
    except OSError as error:
        raise SpecdeckError(
            f"{what} could not be stored: {error.strerror or error}",
            where=str(where),
            fix=_FIXES.get(error.errno or 0, f"check the disk and the permissions of {where.parent}"),
        ) from error


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write and flush a new file (not atomic by itself), from its content or from parts of it as they come.

    Raises:
        OSError: as the operating system says.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        for part in (data,) if isinstance(data, bytes) else _joined(data):
            view = memoryview(part)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts in larger ones: a system call for each line of a file is slow."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PART_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace a file's content at once, from parts as they come; a reader sees the old or the new content.

    Raises:
        OSError: the old content is untouched, as it is after whatever the parts raise.
    """
    with replacing(path) as beside:
        write_file(beside, data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` at the end. Nothing of it stays after an exception.

    Raises:
        OSError: the old content is untouched.
    """
    beside = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    try:
        beside.unlink(missing_ok=True)
        yield beside
        beside.replace(path)
        sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_folder(path: Path, files: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Create a folder with files in it at once.

    Raises:
        OSError: nothing of it is visible; EEXIST or ENOTEMPTY when `path` is there already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        for name, data in files.items():
            write_file(beside / name, data)
        sync_folder(beside)
        beside.rename(path)
        sync_folder(path.parent)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(root: Path) -> list[Path]:
    """Remove what a killed writer left half-written in `root` and its direct subfolders; return what was removed."""
    found = [*root.glob(f"{TEMPORARY_PREFIX}*"), *root.glob(f"*/{TEMPORARY_PREFIX}*")]
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found
