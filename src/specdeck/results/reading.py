"""Reading result files strictly: what is damaged, foreign or too new is an error that names the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.results.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FIX = "restore it from a copy, or remove its folder and measure that part again"
_T = TypeVar("_T")


class _Version(msgspec.Struct):
    schema_version: int


def read_struct(path: Path, kind: type[_T], newest: int = SCHEMA_VERSION) -> _T:
    """Read a JSON file that has a `schema_version`.

    Args:
        path: the file.
        kind: the record that it holds.
        newest: the highest schema version of that record.

    Raises:
        SpecdeckError: unreadable, damaged, or written by a newer specdeck.
    """
    data = read_bytes(path)
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
        if version > newest:
            raise SpecdeckError(
                f"written by a newer specdeck: schema version {version}, this one reads up to {newest}",
                where=str(path),
                fix="update this checkout (git pull), then read it again",
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(str(path), str(error)) from error


def read_bytes(path: Path) -> bytes:
    """Read a whole file.

    Raises:
        SpecdeckError: the operating system refuses.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(path: Path) -> Iterator[bytes]:
    """Read a file line by line, ends of lines included.

    Raises:
        SpecdeckError: the operating system refuses.
    """
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> SpecdeckError:
    return SpecdeckError(
        f"a result file cannot be read: {error.strerror or error}", where=str(path), fix=_FIX
    )


def read_text(path: Path) -> str:
    """Read a whole file as UTF-8.

    Raises:
        SpecdeckError: the operating system refuses, or it is not text.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise damaged(str(path), str(error)) from error


def damaged(where: str, why: str) -> SpecdeckError:
    """The error for a file whose content is wrong."""
    return SpecdeckError(f"a result file is damaged: {why}", where=where, fix=_FIX)


def checked_name(name: str, what: str) -> str:
    """Return a name that may become a folder or a file.

    Raises:
        SpecdeckError: it holds what paths must not hold.
    """
    if not _NAME.fullmatch(name):
        raise SpecdeckError(
            f"{what} {name!r} cannot be the name of a folder",
            fix="use letters, digits, dots, dashes and underscores, beginning with a letter or digit",
        )
    return name
