"""The archive on disk: every cell once, whatever is killed in the middle.

Layout: ARCHIVE/{index.json, incoming/*.parquet, cells/recipe=R/arm=A/*.parquet}. index.json names the files that
count and is replaced at once, so a reader sees an addition or a merge whole or not at all; other files are leftovers.

An addition is one file in incoming/. Incoming files of one size class are merged when MERGE_AT of them have gathered;
SPILL_AT cells that came in are divided among the partitions, whose files are merged in the same way. So a cell is
written about log(cells) / log(MERGE_AT) times, and no place holds more than MERGE_AT - 1 files of a class.
"""

from __future__ import annotations

import io
import secrets
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

import msgspec

from specdeck.archive.columns import COLUMNS, PARTITION
from specdeck.errors import SpecdeckError
from specdeck.results.atomic import replace_file, storing, write_file
from specdeck.results.lock import RunLock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from specdeck.archive.columns import Row

INDEX, LOCK, INCOMING, CELLS = "index.json", ".lock", "incoming", "cells"
MERGE_AT = 16
SPILL_AT = 50_000
VERSION = 1


class File(msgspec.Struct, frozen=True):
    """A Parquet file that counts: its path in the archive, its cells, and the first and last run in it by name."""

    path: str
    cells: int
    first_run: str
    last_run: str

    @property
    def folder(self) -> str:
        """Where it lies in the archive: incoming, or the partition."""
        return self.path.rpartition("/")[0]

    @property
    def size_class(self) -> int:
        """0 for fewer than MERGE_AT cells, and one more with each factor of it."""
        size, cells = 0, self.cells
        while cells >= MERGE_AT:
            cells //= MERGE_AT
            size += 1
        return size


class Index(msgspec.Struct, frozen=True):
    """index.json."""

    files: tuple[File, ...] = ()
    version: int = VERSION

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return sum(file.cells for file in self.files)


class Archive:
    """An archive opened for writing, by one process at a time. Reading needs only `read_index`."""

    def __init__(self, path: Path, *, spill_at: int = SPILL_AT) -> None:
        """Open or create the archive, and remove what a killed writer left.

        Raises:
            SpecdeckError: it cannot be written, its index is damaged, or another process writes it.
        """
        self.path = path
        self._spill_at = spill_at
        with storing("the archive", path):
            (path / INCOMING).mkdir(parents=True, exist_ok=True)
            self._lock = RunLock(path / LOCK, what="this archive", other_way="")
        try:
            self.index = read_index(path)
            self._sweep()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._lock.release()

    def add(self, rows: Sequence[Row]) -> int:
        """Add the cells that are not there yet, all at once; return how many those were.

        Args:
            rows: of one run or of many, in any order; a cell is known by run, arm and cell id.

        Raises:
            SpecdeckError: they cannot be stored; none of them is there then.
        """
        there = self._stored({row["run_id"] for row in rows})
        new = {_key(row): row for row in rows if _key(row) not in there}
        if not new:
            return 0
        self._change([self._write(INCOMING, _table(list(new.values())))], ())
        self._merge_class(INCOMING)
        arrived = [file for file in self.index.files if file.folder == INCOMING]
        if sum(file.cells for file in arrived) >= self._spill_at:
            self._divide(arrived)
        return len(new)

    def merge(self) -> int:
        """Divide what came in among the partitions and make one file of each; return how many files there are."""
        self._divide([file for file in self.index.files if file.folder == INCOMING])
        for folder in sorted({file.folder for file in self.index.files}):
            self._join([file for file in self.index.files if file.folder == folder])
        return len(self.index.files)

    def _divide(self, files: Sequence[File]) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - large and optional

        if not files:
            return
        table = self._read(files)
        places = table.group_by(list(PARTITION)).aggregate([]).to_pylist()
        made = []
        for place in places:
            mask = pc.and_(*(pc.equal(table[name], place[name]) for name in PARTITION))
            folder = "/".join([CELLS, *(f"{name}={quote(place[name], safe='')}" for name in PARTITION)])
            made.append(self._write(folder, table.filter(mask).drop_columns(list(PARTITION))))
        self._change(made, files)
        for file in made:
            self._merge_class(file.folder)

    def _merge_class(self, folder: str) -> None:
        """Merge the class of the newest file of a folder, and what that sets off."""
        while True:
            files = [file for file in self.index.files if file.folder == folder]
            gathered = [file for file in files if file.size_class == files[-1].size_class]
            if len(gathered) < MERGE_AT:
                return
            self._join(gathered)

    def _join(self, files: Sequence[File]) -> None:
        if len(files) > 1:
            self._change([self._write(files[0].folder, self._read(files))], files)

    def _change(self, new: Sequence[File], gone: Sequence[File]) -> None:
        """Replace files in the index, then remove those that no longer count."""
        index = Index(files=(*(file for file in self.index.files if file not in set(gone)), *new))
        with storing("the archive's index", self.path / INDEX):
            replace_file(self.path / INDEX, msgspec.json.encode(index))
        self.index = index
        for file in gone:
            (self.path / file.path).unlink(missing_ok=True)

    def _write(self, folder: str, table: Any) -> File:
        import pyarrow.parquet as pq  # noqa: PLC0415

        table = table.sort_by("run_id")
        out = io.BytesIO()
        pq.write_table(table, out, compression="zstd")
        path = f"{folder}/{secrets.token_hex(8)}.parquet"
        with storing("cells", self.path / path):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
            write_file(self.path / path, out.getvalue())
        runs = table["run_id"]
        return File(path, len(table), runs[0].as_py(), runs[-1].as_py())

    def _read(self, files: Sequence[File]) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        return pa.concat_tables([self._rows(file) for file in files])

    def _stored(self, runs: set[str]) -> set[tuple[str, ...]]:
        """The cells of these runs that are there. Files are sorted by run: most of them is passed over unread."""
        found: set[tuple[str, ...]] = set()
        for file in self.index.files:
            wanted = sorted(run for run in runs if file.first_run <= run <= file.last_run)
            if not wanted:
                continue
            arm = None if file.folder == INCOMING else _arm_of(file)
            columns = ["run_id", "cell_id", *(["arm"] if arm is None else [])]
            lines = self._rows(file, columns=columns, filters=[("run_id", "in", wanted)]).to_pylist()
            found.update((line["run_id"], arm or line["arm"], line["cell_id"]) for line in lines)
        return found

    def _rows(self, file: File, **options: Any) -> Any:
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            return pq.read_table(self.path / file.path, partitioning=None, **options)
        except (OSError, ValueError) as error:
            raise _damaged(self.path / file.path, str(error)) from error

    def _sweep(self) -> None:
        named = {file.path for file in self.index.files}
        for pattern in (f"{INCOMING}/*.parquet", f"{CELLS}/*/*/*.parquet"):
            for path in self.path.glob(pattern):
                if path.relative_to(self.path).as_posix() not in named:
                    path.unlink(missing_ok=True)


def read_index(path: Path) -> Index:
    """Read an archive's index; an archive that is not there is empty.

    Raises:
        SpecdeckError: damaged, or written by a newer specdeck.
    """
    file = path / INDEX
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Index)
    except FileNotFoundError:
        return Index()
    except (msgspec.DecodeError, OSError) as error:
        raise _damaged(file, str(error)) from error
    if found.version != VERSION:
        raise _damaged(file, f"it is of version {found.version}, this specdeck reads {VERSION}")
    return found


def _damaged(path: Path, why: str) -> SpecdeckError:
    return SpecdeckError(
        f"the archive is damaged: {why}",
        where=str(path),
        fix="remove the archive's folder and fill it again: specdeck archive results/measured",
    )


def _key(row: Row) -> tuple[str, ...]:
    return row["run_id"], row["arm"], row["cell_id"]


def _arm_of(file: File) -> str:
    return unquote(file.folder.rpartition("arm=")[2])


def _table(rows: Sequence[Row]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    kinds = dict.fromkeys(PARTITION, "string") | COLUMNS
    columns = [pa.array([row.get(name) for row in rows], type=_arrow(pa, kind)) for name, kind in kinds.items()]
    return pa.table(columns, names=list(kinds))


def _arrow(pa: Any, kind: str) -> Any:
    return pa.list_(_arrow(pa, kind[5:-1])) if kind.startswith("list<") else pa.type_for_alias(kind)
