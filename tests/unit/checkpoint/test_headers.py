"""Headers of safetensors files: what is read, and that a lying one is always an error with file and place."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.checkpoint.headers import read_header
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, header: Any, data: int, *, length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + bytes(data))
    return path


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


GOOD = {
    "__metadata__": {"format": "pt"},
    "b": entry("F4", [2, 4], 24, 28),
    "a": entry("BF16", [3, 4], 0, 24),
    "empty": entry("F32", [0, 7], 24, 24),
}


def test_tensors_come_in_the_order_of_their_bytes_with_their_sizes(tmp_path: Path) -> None:
    tensors = read_header(written(tmp_path / "a.safetensors", GOOD, 28))
    assert [(t.name, t.nbytes) for t in tensors] == [("a", 24), ("empty", 0), ("b", 4)]


@pytest.mark.parametrize(
    ("header", "data", "length", "said"),
    [
        (GOOD, 27, None, "ends at data byte 28"),
        (GOOD, 29, None, "holds 29 bytes of data, and its header describes 28"),
        (GOOD, 28, 2**40, "claims a header of"),
        (GOOD, 28, 90_000, "bytes in all"),
        ({"a": entry("BF16", [3, 4], 0, 20)}, 20, None, "takes 24"),
        ({"a": entry("BF17", [3, 4], 0, 24)}, 24, None, "unknown dtype"),
        ({"a": entry("I8", [4], 0, 4), "b": entry("I8", [4], 2, 6)}, 6, None, "overlaps"),
        ({"a": entry("I8", [4], 0, 4), "b": entry("I8", [4], 6, 10)}, 10, None, "no tensor owns"),
        ({"a": entry("I8", [-4], 0, 4)}, 4, None, "no valid shape"),
        ({"a": entry("I8", [True], 0, 1)}, 1, None, "no valid shape"),
        ({"a": {"dtype": "I8"}}, 0, None, "not described"),
        (b'{"a": 1, "a": 2}', 0, None, "appears twice"),
        (b"[]", 0, None, "no JSON object"),
        (b"\xff\xfe{}", 0, None, "not UTF-8"),
        (b"[" * 200_000, 0, None, "nested too deeply|not JSON"),
    ],
)
def test_a_lying_header_is_an_error_that_names_the_file(
    tmp_path: Path, header: Any, data: int, length: int | None, said: str
) -> None:
    path = written(tmp_path / "bad.safetensors", header, data, length=length)
    with pytest.raises(SpecdeckError, match=said) as caught:
        read_header(path)
    assert str(path) in str(caught.value.where)
    assert caught.value.fix


def test_thousands_of_mutated_headers_give_tensors_or_an_error_with_the_file_and_nothing_else(tmp_path: Path) -> None:
    chance = random.Random(7)
    good = written(tmp_path / "good.safetensors", GOOD, 28).read_bytes()
    path = tmp_path / "mutant.safetensors"
    places: list[str] = []
    for _ in range(3000):
        raw = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(raw))
            kind = chance.randrange(4)
            if kind == 0:
                raw[place] = chance.randrange(256)
            elif kind == 1:
                del raw[place : place + chance.randint(1, 20)]
            elif kind == 2:
                raw[place:place] = chance.choice([b"9" * 30, b'"', b"{", b"null", b"-1", b"1e9", b"\x00"])
            else:
                raw = raw[:place] or bytearray(b"\x00")
            if not raw:
                raw = bytearray(b"\x01")
        path.write_bytes(raw)
        try:
            tensors = read_header(path)
        except SpecdeckError as error:
            places.append(str(error.where))
        else:
            assert sum(tensor.nbytes for tensor in tensors) <= len(raw)
    assert len(places) > 2000
    assert all(str(path) in place for place in places)
