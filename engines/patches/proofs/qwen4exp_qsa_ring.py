"""Proves which ring the QSA indexer gets: the narrowest that holds ratio + n tokens and divides the attention block."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from statements import method, read, run

names: dict[str, Any] = {
    "cdiv": lambda value, step: -(-value // step),
    "round_up": lambda value, step: -(-value // step) * step,
    "CircularBufferSpec": SimpleNamespace,
}
run([method(read("vllm/models/qwen4_exp/common/qsa_cache.py"), "QSAKeyStateCache", "get_kv_cache_spec")], names)


def ring(ratio: int, drafted: int, block: int) -> int:
    """Return the tokens of the ring."""
    cache = SimpleNamespace(
        compress_ratio=ratio, head_size=140, dtype="bfloat16", cache_config=SimpleNamespace(block_size=block)
    )
    spec = names["get_kv_cache_spec"](cache, SimpleNamespace(num_speculative_tokens=drafted))
    return int(spec.block_size)


# The published automatic blocks, those that had to be forced, and small and odd ones.
for ratio, blocks in ((4, (16, 32, 400, 848, 1616, 1632, 1648, 1680)), (2, (16, 50)), (8, (848, 1616))):
    for block in blocks:
        for drafted in range(17):
            fits = [n for n in range(ratio, block + 1, ratio) if n >= ratio + drafted and block % n == 0]
            try:
                found = ring(ratio, drafted, block)
            except ValueError:
                found = 0
            except AssertionError as error:
                print(f"ratio {ratio}, {drafted} drafted, block {block}: {error}")
                sys.exit(1)
            if found != (fits[0] if fits else 0):
                print(f"ratio {ratio}, {drafted} drafted, block {block}: a ring of {found}, of {fits[:3]}")
                sys.exit(1)
if [ring(4, n, 1616) for n in (3, 4, 5, 7, 8, 12)] != [8, 8, 16, 16, 16, 16] or ring(4, 7, 1680) != 12:
    print("wrong rings for the published blocks")
    sys.exit(1)
