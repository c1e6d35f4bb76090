"""Reads JSON files that somebody else wrote: bounded in size and depth, every fault an error that names the file."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - used at run time by callers' annotations
from typing import Any, NoReturn

from specdeck.errors import SpecdeckError

LARGEST_CONFIG = 16 * 2**20
_DOWNLOAD = "download the checkpoint again; a complete file is needed"


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file whose top level is an object.

    Raises:
        SpecdeckError: it is missing, larger than 16 MiB, not UTF-8, not JSON, or not an object; names line and column.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_CONFIG + 1)
    except OSError as error:
        raise SpecdeckError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="check that the checkpoint is complete"
        ) from error
    if len(data) > LARGEST_CONFIG:
        raise SpecdeckError("is larger than 16 MiB, which no config.json is", where=str(path), fix=_DOWNLOAD)
    return parse_object(data, str(path))


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Parse a JSON object. Repeated keys, NaN and infinities are refused, as is nesting that exhausts the parser.

    Raises:
        SpecdeckError: as for read_object.
    """
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise SpecdeckError(f"is not UTF-8 at byte {error.start}", where=where, fix=_DOWNLOAD) from error
    except json.JSONDecodeError as error:
        raise SpecdeckError(
            f"is not JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}", fix=_DOWNLOAD
        ) from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SpecdeckError(f"cannot be used: {reason}", where=where, fix=_DOWNLOAD) from error
    if not isinstance(found, dict):
        raise SpecdeckError("holds no JSON object at its top level", where=where, fix=_DOWNLOAD)
    return found


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} appears twice")
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number JSON knows")
