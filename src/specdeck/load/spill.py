"""Answers of ended requests, unparsed: in memory up to a budget, in an unnamed temporary file beyond it.

So the memory of a load does not grow with its length, and nothing is parsed while others are timed.
"""

from __future__ import annotations

import tempfile
from array import array
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from specdeck.load.exchange import Exchange

MEMORY_BYTES = 8 * 2**20
SEGMENT_BYTES = 80
"""What a segment takes in memory beside its bytes: the bytes object's head, the stamp, and a place in either list."""


class Spill:
    """A context manager; leaving it gives the file's space back."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._budget = memory_bytes
        self._file: IO[bytes] | None = None
        self._places: dict[int, tuple[int, int]] = {}
        self._full = False

    def put(self, exchange: Exchange) -> None:
        """Take over an ended exchange's stamps and chunks; `fetch` brings them back.

        When the file cannot be written (the disk is full, say) they stay in memory: no answer is lost for space.
        """
        size = sum(map(len, exchange.chunks)) + SEGMENT_BYTES * len(exchange.chunks)
        if self._full or size <= self._budget:
            self._budget -= size
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="specdeck-", buffering=0)  # noqa: SIM115 - closed on exit
            place = self._file.seek(0, 2)
            lengths = array("Q", map(len, exchange.chunks))
            data = b"".join([array("d", exchange.stamps).tobytes(), lengths.tobytes(), *exchange.chunks])
            if self._file.write(data) != len(data):
                self._full = True
                return
        except OSError:
            self._full = True
            return
        self._places[exchange.index] = (place, len(lengths))
        exchange.stamps, exchange.chunks = [], []

    def fetch(self, exchange: Exchange) -> None:
        """Bring back what `put` took over.

        Raises:
            OSError: the file cannot be read any more.
        """
        found = self._places.pop(exchange.index, None)
        if found is None or self._file is None:
            return
        place, count = found
        self._file.seek(place)
        stamps, lengths = array("d"), array("Q")
        stamps.frombytes(self._read(8 * count))
        lengths.frombytes(self._read(8 * count))
        exchange.stamps = list(stamps)
        data, at = self._read(sum(lengths)), 0
        exchange.chunks = []
        for length in lengths:
            exchange.chunks.append(data[at : at + length])
            at += length

    def _read(self, count: int) -> bytes:
        assert self._file is not None
        data = b""
        while len(data) < count:
            part = self._file.read(count - len(data))
            if not part:
                raise OSError("the temporary file of answers is shorter than what was written to it")
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
