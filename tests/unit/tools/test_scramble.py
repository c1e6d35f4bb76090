"""The drafter that is broken on purpose."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

from specdeck.paths import repo_root

if TYPE_CHECKING:
    from pathlib import Path

CODEBOOKS = {"candidate_selector.predecessor_codebook", "candidate_selector.successor_codebook"}


def _tensors(file: Path) -> dict[str, tuple[list[int], bytes]]:
    data = file.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8 : 8 + length])
    head.pop("__metadata__")
    return {
        name: (item["shape"], data[8 + length + item["data_offsets"][0] : 8 + length + item["data_offsets"][1]])
        for name, item in head.items()
    }


def test_only_the_order_of_the_codebooks_rows_changes(tmp_path: Path) -> None:
    drafter = repo_root() / "models" / "tiny-next" / "drafter"
    command = [sys.executable, str(repo_root() / "tools" / "scramble_codebooks.py"), str(drafter), str(tmp_path)]
    subprocess.run(command, check=True, timeout=120)
    assert (tmp_path / "config.json").read_bytes() == (drafter / "config.json").read_bytes()
    before, after = _tensors(drafter / "model.safetensors"), _tensors(tmp_path / "model.safetensors")
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == CODEBOOKS
    for name in CODEBOOKS:
        shape, old = before[name]
        width = len(old) // shape[0]
        rows = [sorted(data[i : i + width] for i in range(0, len(data), width)) for data in (old, after[name][1])]
        assert rows[0] == rows[1]
