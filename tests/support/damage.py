"""Checkpoints that are broken on purpose: every file valid, every server starts, and what it computes is wrong."""

from __future__ import annotations

import json
import random
import shutil
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def corrupt_tensor(checkpoint: Path, out: Path, name: str) -> None:
    """Copy a checkpoint; shuffle the rows of one tensor of its model.safetensors, with a fixed seed."""
    shutil.copytree(checkpoint, out)
    data = bytearray((out / "model.safetensors").read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    begin, end = (8 + length + offset for offset in json.loads(data[8 : 8 + length])[name]["data_offsets"])
    rows = json.loads(data[8 : 8 + length])[name]["shape"][0]
    width = (end - begin) // rows
    order = list(range(rows))
    random.Random(0).shuffle(order)
    data[begin:end] = b"".join(data[begin + width * row : begin + width * (row + 1)] for row in order)
    (out / "model.safetensors").write_bytes(data)


def move_tap(drafter: Path, out: Path, taps: list[int]) -> None:
    """Copy a drafter whose config.json says that other layers of the target feed it."""
    shutil.copytree(drafter, out)
    config = json.loads((out / "config.json").read_text())
    assert config["dflash_config"]["target_layer_ids"] != taps
    config["dflash_config"]["target_layer_ids"] = taps
    (out / "config.json").write_text(json.dumps(config))
