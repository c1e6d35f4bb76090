"""Reads the header of a safetensors file and checks it against the file's size, without reading a tensor.

Layout: 8 bytes little-endian header length, a JSON object of that length, then the tensors' bytes without gaps
(https://github.com/huggingface/safetensors, README, "Format").
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path  # noqa: TC003 - used at run time by callers' annotations
from typing import Any

from specdeck.checkpoint.jsonfile import parse_object
from specdeck.errors import SpecdeckError

# The limit of the reference implementation.
LARGEST_HEADER = 100_000_000
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
_FIX = "the file is incomplete or damaged: download it again, and check its sha256 against the repository's"


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file: its name, dtype in safetensors' spelling, shape and size in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


def read_header(path: Path) -> tuple[Tensor, ...]:
    """Return the tensors of a safetensors file, in the order of their bytes.

    Raises:
        SpecdeckError: the file is truncated, has bytes no tensor owns, or its header contradicts itself or the file's
            size; names the file and the tensor or byte.
    """
    where = str(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(8)
            if len(head) < 8:
                raise _broken(where, f"has {size} bytes, fewer than the 8 of the header's length")
            length = int.from_bytes(head, "little")
            if not 2 <= length <= LARGEST_HEADER:
                raise _broken(where, f"claims a header of {length} bytes", "byte 0")
            if 8 + length > size:
                raise _broken(where, f"claims a header of {length} bytes, but has {size} bytes in all", "byte 0")
            data = file.read(length)
    except OSError as error:
        raise SpecdeckError(f"cannot be read: {error.strerror or error}", where=where, fix=_FIX) from error
    if len(data) < length:
        raise _broken(where, f"ended after {8 + len(data)} bytes, inside its header")
    return _tensors(parse_object(data, f"{where} (header)"), size - 8 - length, where)


def _tensors(header: dict[str, Any], available: int, where: str) -> tuple[Tensor, ...]:
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise _broken(where, "has a __metadata__ that is not an object", "__metadata__")
    spans = sorted((_span(name, entry, where) for name, entry in header.items()), key=lambda span: span[:2])
    position = 0
    for start, end, tensor in spans:
        if start != position:
            kind = "overlaps the tensor before it" if start < position else "leaves bytes that no tensor owns before it"
            raise _broken(where, f"tensor {tensor.name!r} starts at {start} and {kind}", f"data byte {position}")
        if end > available:
            raise _broken(
                where, f"tensor {tensor.name!r} ends at data byte {end}, but the file holds {available}", "file end"
            )
        position = end
    if position != available:
        raise _broken(where, f"holds {available} bytes of data, and its header describes {position}", "file end")
    return tuple(tensor for _, _, tensor in spans)


def _span(name: str, entry: Any, where: str) -> tuple[int, int, Tensor]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _broken(where, f"tensor {name!r} is not described by dtype, shape and data_offsets alone", name)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    bits = BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        raise _broken(where, f"tensor {name!r} has the unknown dtype {dtype!r}", f"{name}.dtype")
    if not _naturals(shape):
        raise _broken(where, f"tensor {name!r} has no valid shape", f"{name}.shape")
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _broken(where, f"tensor {name!r} has no valid data_offsets", f"{name}.data_offsets")
    total = prod(shape) * bits
    nbytes = offsets[1] - offsets[0]
    if total != nbytes * 8:
        raise _broken(
            where,
            f"tensor {name!r} claims {nbytes} bytes, but {dtype} {list(shape)} takes {total / 8:g}"[:300],
            f"{name}.data_offsets",
        )
    return offsets[0], offsets[1], Tensor(name, dtype, tuple(shape), nbytes)


def _naturals(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**53 for v in value)
    )


def _broken(where: str, what: str, key: str | None = None) -> SpecdeckError:
    shown = key if key is None or len(key) <= 200 else key[:200] + "…"
    return SpecdeckError(
        what if len(what) <= 500 else what[:500] + "…", where=f"{where}: {shown}" if shown else where, fix=_FIX
    )
