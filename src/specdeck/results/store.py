"""A run on disk: run.json and one folder a cell, each appearing whole; read back strictly, by name and line.

Layout: RUN/run.json, RUN/ARM/CELL/{cell.json,requests.jsonl,metrics-before.txt,metrics-after.txt}.
"""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Self

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.results.atomic import remove_leftovers, replace_file, storing, write_folder
from specdeck.results.lock import RunLock
from specdeck.results.reading import checked_name, damaged, read_lines, read_struct, read_text
from specdeck.results.schema import Cell, RequestRecord, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

RUN_FILE, CELL_FILE, REQUESTS_FILE = "run.json", "cell.json", "requests.jsonl"
BEFORE_FILE, AFTER_FILE, LOCK_FILE = "metrics-before.txt", "metrics-after.txt", ".lock"


class RunStore:
    """One run's folder. Made by `create` and `find_resumable` for writing (locked), by `open` for reading."""

    def __init__(self, path: Path, lock: RunLock | None) -> None:
        self.path = path
        self._lock = lock
        self.removed = remove_leftovers(path) if lock else []

    @classmethod
    def create(cls, root: Path, run: Run) -> Self:
        """Create the folder `root/run_id` with its run.json, locked for writing.

        Raises:
            SpecdeckError: the run exists, or cannot be written.
        """
        path = root / checked_name(run.run_id, "run id")
        with storing(f"the run {run.run_id}", path):
            root.mkdir(parents=True, exist_ok=True)
            try:
                path.mkdir()
            except FileExistsError as error:
                raise SpecdeckError(
                    f"there is a run called {run.run_id} already",
                    where=str(path),
                    fix="run again a second later, or remove that folder",
                ) from error
        try:
            with storing("the lock of the run", path / LOCK_FILE):
                store = cls(path, RunLock(path / LOCK_FILE))
            store.save_run(run)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return store

    @classmethod
    def open(cls, path: Path, *, write: bool = False) -> Self:
        """Open a run; for writing it is locked and what a killed writer left half-written is removed.

        Raises:
            SpecdeckError: there is no run, its run.json is damaged or of a newer specdeck, or another process writes.
        """
        if not (path / RUN_FILE).is_file():
            raise SpecdeckError(
                "there is no run here: run.json is missing",
                where=str(path),
                fix="give the folder of a run, results/measured/RUN",
            )
        lock = None
        if write:
            with storing("the lock of the run", path / LOCK_FILE):
                lock = RunLock(path / LOCK_FILE)
        try:
            store = cls(path, lock)
            store.run()
        except BaseException:
            if lock:
                lock.release()
            raise
        return store

    @classmethod
    def find_resumable(cls, root: Path, fingerprint: str) -> Self | None:
        """Open the newest unfinished run of the same experiment for writing; None when there is none.

        Folders without a readable run.json are other people's or were killed at birth: they are passed over.

        Raises:
            SpecdeckError: another process is writing that run.
        """
        found: list[tuple[str, Path]] = []
        for file in root.glob(f"*/{RUN_FILE}"):
            try:
                run = read_struct(file, Run)
            except SpecdeckError:
                continue
            if run.fingerprint == fingerprint and run.status != "complete":
                found.append((run.created_at, file.parent))
        return cls.open(max(found)[1], write=True) if found else None

    def discard_if_empty(self) -> None:
        """Remove the folder of a run that holds neither a cell nor a log: it says nothing to anyone."""
        if self._lock and not any(entry.is_dir() for entry in self.path.iterdir()):
            self.close()
            shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Give the lock back."""
        if self._lock:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def run(self) -> Run:
        """Read run.json.

        Raises:
            SpecdeckError: damaged, or written by a newer specdeck.
        """
        return read_struct(self.path / RUN_FILE, Run)

    def save_run(self, run: Run) -> None:
        """Replace run.json at once.

        Raises:
            SpecdeckError: it could not be written; the old one is untouched.
        """
        self._require_lock()
        path = self.path / RUN_FILE
        with storing("run.json", path):
            replace_file(path, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")

    def write_cell(self, cell: Cell, records: Sequence[RequestRecord], before_text: str, after_text: str) -> Path:
        """Store a cell; its folder appears when everything in it is on the disk.

        Raises:
            SpecdeckError: it could not be written (nothing of it is visible then), or is there already.
        """
        self._require_lock()
        path = self._cell_path(cell.arm, cell.cell_id)
        encode = msgspec.json.encode
        files: dict[str, bytes | Iterable[bytes]] = {
            REQUESTS_FILE: (encode(record) + b"\n" for record in records),
            BEFORE_FILE: before_text.encode(),
            AFTER_FILE: after_text.encode(),
            CELL_FILE: msgspec.json.format(encode(cell), indent=1) + b"\n",
        }
        with storing(f"cell {cell.arm}/{cell.cell_id}", path):
            try:
                write_folder(path, files)
            except OSError as error:
                if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
                    raise SpecdeckError(
                        f"cell {cell.arm}/{cell.cell_id} is stored already",
                        where=str(path),
                        fix="results are never overwritten: use --fresh for a new run",
                    ) from error
                raise
        return path

    def has_cell(self, arm: str, cell_id: str) -> bool:
        """Whether that cell is stored."""
        return (self._cell_path(arm, cell_id) / CELL_FILE).is_file()

    def cells(self) -> list[tuple[Cell, Path]]:
        """Read all cells in measuring order, with their folders.

        Raises:
            SpecdeckError: a cell.json is damaged; it is named.
        """
        cells = [(found, folder) for folder, found in self.each_cell()]
        for found, _ in cells:
            if isinstance(found, SpecdeckError):
                raise found
        return [(found, folder) for found, folder in cells if isinstance(found, Cell)]

    def each_cell(self) -> list[tuple[Path, Cell | SpecdeckError]]:
        """Read all cells in measuring order, each with its folder; damaged ones come last, as the error that says why.

        A cell whose folder has another name than it says is damaged: its requests lie somewhere else.
        """
        found: list[tuple[Path, Cell | SpecdeckError]] = []
        for file in self.path.glob(f"*/*/{CELL_FILE}"):
            if file.parent.name.startswith("."):
                continue
            try:
                cell = read_struct(file, Cell)
                if (cell.arm, cell.cell_id) != (file.parent.parent.name, file.parent.name):
                    raise damaged(str(file), f"it is cell {cell.arm}/{cell.cell_id}")
                found.append((file.parent, cell))
            except SpecdeckError as error:
                found.append((file.parent, error))
        return sorted(found, key=_measuring_order)

    def records(self, arm: str, cell_id: str) -> list[RequestRecord]:
        """Read a cell's request records.

        Raises:
            SpecdeckError: missing, or a line is damaged; file and line are named.
        """
        return list(self.each_record(arm, cell_id))

    def each_record(self, arm: str, cell_id: str) -> Iterator[RequestRecord]:
        """Read a cell's request records one by one.

        Raises:
            SpecdeckError: missing, or a line is damaged; file and line are named. What came before was whole.
        """
        path = self._cell_path(arm, cell_id) / REQUESTS_FILE
        decoder = msgspec.json.Decoder(RequestRecord)
        for number, line in enumerate(read_lines(path), 1):
            if not line.endswith(b"\n"):
                raise damaged(f"{path}:{number}", "the last line is cut off")
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise damaged(f"{path}:{number}", str(error)) from error

    def metrics(self, arm: str, cell_id: str) -> tuple[str, str]:
        """Read the exposition texts taken before and after a cell.

        Raises:
            SpecdeckError: a file is missing or not text.
        """
        folder = self._cell_path(arm, cell_id)
        return read_text(folder / BEFORE_FILE), read_text(folder / AFTER_FILE)

    def _cell_path(self, arm: str, cell_id: str) -> Path:
        return self.path / checked_name(arm, "arm") / checked_name(cell_id, "cell id")

    def _require_lock(self) -> None:
        assert self._lock is not None, "this store was opened for reading"


def _measuring_order(item: tuple[Path, Cell | SpecdeckError]) -> tuple[bool, int, str, str]:
    folder, found = item
    order = found.order if isinstance(found, Cell) else 0
    return not isinstance(found, Cell), order, folder.parent.name, folder.name
