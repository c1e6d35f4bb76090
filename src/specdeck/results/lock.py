"""One writer per run or archive: an advisory lock that the kernel drops with the process, whatever ends it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path


class RunLock:
    """Holds `path` locked until `release`. The file stays; it names the last holder."""

    def __init__(self, path: Path, what: str = "this run", other_way: str = "start a run of its own: --fresh") -> None:
        """Take the lock; `what` is written under it, and `other_way` to go on there is, for the error.

        Raises:
            SpecdeckError: another process holds it; its pid is named.
            OSError: the file cannot be opened.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            ways = ("wait for it", f"stop it (kill {holder})" if holder else "", other_way)
            raise SpecdeckError(
                f"another process ({f'pid {holder}' if holder else 'pid not known yet'}) is writing {what}",
                where=str(path.parent),
                fix=" or ".join(way for way in ways if way),
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
