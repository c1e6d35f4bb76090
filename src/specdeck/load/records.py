"""The records of a load as a sequence that does not hold them: JSON lines, in a temporary file beyond a budget.

So that what a cell's memory needs does not grow with how many requests it has and how long their answers are.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, overload

import msgspec

from specdeck.results.schema import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MEMORY_BYTES = 4 * 2**20


class Records(Sequence[RequestRecord]):
    """Each access decodes anew; a record is equal to the one that was put in.

    The file has no name and is gone with the object. Where it cannot be written (the disk is full, say) the rest stays
    in memory: no record is lost for space.

    Raises:
        OSError: on access, the file cannot be read any more.
    """

    def __init__(self, records: Iterable[RequestRecord], memory_bytes: int = MEMORY_BYTES) -> None:
        self._decoder = msgspec.json.Decoder(RequestRecord)
        self._head: list[bytes] = []
        self._starts = array("Q")
        self._tail: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._end = 0
        for record in records:
            line = msgspec.json.encode(record)
            if memory_bytes >= len(line) and not self._starts and not self._tail:
                memory_bytes -= len(line)
                self._head.append(line)
            elif self._tail or not self._write(line):
                self._tail.append(line)

    def _write(self, line: bytes) -> bool:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="specdeck-", buffering=0)  # noqa: SIM115 - gone with the object
            self._file.seek(self._end)
            if self._file.write(line) != len(line):
                return False
        except OSError:
            return False
        self._starts.append(self._end)
        self._end += len(line)
        return True

    def __len__(self) -> int:
        return len(self._head) + len(self._starts) + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> RequestRecord: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RequestRecord, ...]: ...

    def __getitem__(self, index: int | slice) -> RequestRecord | tuple[RequestRecord, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        return self._decoder.decode(self.line(number))

    def __iter__(self) -> Iterator[RequestRecord]:
        return (self._decoder.decode(self.line(number)) for number in range(len(self)))

    def line(self, number: int) -> bytes:
        """Record `number` (from 0) as JSON, without a line break."""
        if number < len(self._head):
            return self._head[number]
        number -= len(self._head)
        if number >= len(self._starts):
            return self._tail[number - len(self._starts)]
        assert self._file is not None
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else self._end
        self._file.seek(start)
        found = self._file.read(end - start)
        if len(found) < end - start:
            raise OSError("the temporary file of records is shorter than what was written to it")
        return found
