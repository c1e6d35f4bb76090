"""Make a broken drafter: `scramble_codebooks.py DRAFTER OUT` copies a DFlash2 drafter, codebooks' rows shuffled.

The file stays valid and the server starts; only what it drafts is wrong. For tests of what a regression check catches.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
import sys
from pathlib import Path

NAMES = ("candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook")


def scramble(drafter: Path, out: Path) -> None:
    """Copy the folder; in model.safetensors shuffle the rows of each codebook, with a fixed seed."""
    out.mkdir(parents=True, exist_ok=True)
    for file in drafter.iterdir():
        shutil.copyfile(file, out / file.name)
    data = bytearray((drafter / "model.safetensors").read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8 : 8 + length])
    for seed, name in enumerate(NAMES):
        begin, end = (8 + length + offset for offset in head[name]["data_offsets"])
        rows = head[name]["shape"][0]
        width = (end - begin) // rows
        order = list(range(rows))
        random.Random(seed).shuffle(order)  # noqa: S311 - not a secret
        data[begin:end] = b"".join(data[begin + width * row : begin + width * (row + 1)] for row in order)
    (out / "model.safetensors").write_bytes(data)


if __name__ == "__main__":
    scramble(Path(sys.argv[1]), Path(sys.argv[2]))
