"""Downloads one large file of the hub so that it can be taken up again, in whichever process the next attempt is made.

huggingface_hub resumes only within one call: it begins with an empty file of a new name each time. Here a part is kept
under the file's own hash; its bytes come by huggingface_hub's transfer, and it becomes a blob once its hash is right.
"""

from __future__ import annotations

import fcntl
import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from specdeck.errors import EXIT_FAILED, SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

PART = ".specdeck-part"
MOST_BYTES = 50_000_000_000
"""Larger files the hub gives out by its chunk protocol only."""
_CHUNK = 2**22


def part_of(blobs: Path, sha256: str) -> Path:
    """Return where the beginning of a file is kept until it is whole."""
    return blobs / (sha256 + PART)


def download_blob(url: str, blobs: Path, sha256: str, size: int, token: str | None) -> Path:
    """Download a file into the cache's blobs, going on where an earlier attempt stopped.

    Args:
        url: the hub's address of the file at a commit.
        blobs: folder of the cache.
        sha256: its hash (hex), which is its name there.
        size: its size in bytes.
        token: sent to the hub, and not to where the hub redirects.

    Returns:
        The blob.

    Raises:
        SpecdeckError: another process is at it, or what came is not the file (the part is removed then).
        Exception: huggingface_hub's own, where the transfer breaks; what has come is kept.
    """
    blob, part = blobs / sha256, part_of(blobs, sha256)
    if blob.is_file() and blob.stat().st_size == size:
        return blob
    blobs.mkdir(parents=True, exist_ok=True)
    part.touch()
    with part.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SpecdeckError(
                "another process is downloading this file", where=str(part), fix="wait for it, then run this again"
            ) from None
        _complete(file, url, size, token)
        file.flush()
        file.seek(0)
        found = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            found.update(chunk)
        if found.hexdigest() != sha256:
            part.unlink()
            raise SpecdeckError(
                f"what came is not the hub's file (sha256 {found.hexdigest()[:16]}…, expected {sha256[:16]}…); "
                "it has been removed",
                where=str(blob),
                fix="run the same command again: only that file is downloaded",
                exit_code=EXIT_FAILED,
            )
        part.replace(blob)
    return blob


def _complete(file: BinaryIO, url: str, size: int, token: str | None) -> None:
    from huggingface_hub import get_hf_file_metadata  # noqa: PLC0415 - only a download needs it
    from huggingface_hub.file_download import http_get  # noqa: PLC0415
    from huggingface_hub.utils._headers import build_hf_headers  # noqa: PLC0415

    have = file.seek(0, 2)
    if have > size:
        have = file.truncate(0)
        file.seek(0)
    if have == size:
        return
    location = get_hf_file_metadata(url, token=token).location
    headers = build_hf_headers(token=token)
    if urlsplit(location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)
    http_get(location, file, resume_size=have, headers=headers, expected_size=size)
