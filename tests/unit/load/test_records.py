"""Records beyond the memory budget come back from the disk equal, and a full disk loses none."""

from __future__ import annotations

import errno
import tempfile
import tracemalloc
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdeck.load.records import Records
from specdeck.results.schema import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = RequestRecord(
    request_id="r", index=0, prompt_id="p", category="c", scheduled_s=0.1, end_s=2.000000001, text="grün 🦆\n\0",
    chunk_s=(0.5, 1.0000000001), chunk_tokens=(1, 3),
)  # fmt: skip


def _some(count: int, text: str = "") -> list[RequestRecord]:
    return [msgspec.structs.replace(RECORD, index=number, text=RECORD.text + text) for number in range(count)]


@given(st.integers(0, 12), st.integers(0, 2000))
def test_records_come_back_equal_in_any_order_whatever_the_budget(count: int, budget: int) -> None:
    made = _some(count)
    kept = Records(made, budget)
    assert len(kept) == count
    assert list(kept) == list(kept) == made
    assert [kept[number] for number in reversed(range(count))] == made[::-1]
    assert kept[1:7:2] == tuple(made[1:7:2])
    if made:
        assert kept[-1] == made[-1]
    for beyond in (count, -count - 1):
        with pytest.raises(IndexError):
            kept[beyond]


def test_memory_does_not_grow_with_the_number_of_records() -> None:
    def stream(count: int) -> Iterator[RequestRecord]:
        for number in range(count):
            yield msgspec.structs.replace(RECORD, index=number, text="x" * 2000)

    def held(count: int) -> int:
        tracemalloc.start()
        kept = Records(stream(count), 50_000)
        assert sum(len(record.text) for record in kept) == 2000 * count
        used, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(kept) == count
        assert used <= peak
        return peak

    assert held(2000) < held(200) + 100_000, "1,800 records more would be 3.6 MB of text"


def test_a_full_disk_leaves_records_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _some(5)
    one = len(msgspec.json.encode(made[0]))

    def no_space(**_options: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    kept = Records(made, 2 * one)
    assert list(kept) == made
    assert kept[4] == made[4]


def test_a_disk_that_fills_up_half_way_loses_neither_what_was_written_nor_what_was_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, made = tempfile.TemporaryFile, _some(6)

    class Filling:
        def __init__(self) -> None:
            self.file, self.left = real(buffering=0), 3

        def write(self, data: bytes) -> int:
            self.left -= 1
            if self.left < 0:
                return self.file.write(data[:5])
            return self.file.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_options: Filling())
    assert list(Records(made, 0)) == made
