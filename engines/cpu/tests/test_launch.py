"""Launching: arguments, grids and failures are what Triton's own launch makes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

PROGRAM = """
import torch, triton, triton.language as tl
from specdeck_triton_cpu import gaps, fast
gaps.close()
if {fast}:
    fast.install()

@triton.jit
def double(x, by: tl.constexpr = 2):
    return x * by

@triton.jit
def kernel(out, values, n, scale, flag, BLOCK: tl.constexpr, LABEL: tl.constexpr = "add", *, extra=3):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    offsets = tl.arange(0, BLOCK)
    found = double(tl.load(values + offsets, mask=offsets < n, other=0)) * scale + extra
    if flag:
        found += 1
    if LABEL == "add":
        found += x * 100 + y * 10 + z
    tl.store(out + ((x * 2 + y) * 2 + z) * BLOCK + offsets, found, mask=offsets < n)

@triton.jit
def failing(out):
    tl.store(out, tl.load(out) + undefined_name)

def attempt(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)

values = torch.arange(8, dtype=torch.int32)
def run(grid, *args, **keywords):
    out = torch.zeros(8, 8, dtype=torch.int32)
    kernel[grid](out, values, *args, **keywords)
    return out.tolist()

print(attempt(lambda: run((2, 2, 2), 5, 3, True, BLOCK=8)))
print(attempt(lambda: run((2,), 8, scale=2, flag=False, BLOCK=8, LABEL="none", extra=9)))
print(attempt(lambda: run(lambda meta: (meta["BLOCK"] // 4,), 8, 1, 0, 8, num_warps=4, num_stages=2)))
print(attempt(lambda: run((1,), 8, 2**40, None, 8)))
print(attempt(lambda: run((1, 1, 1, 1), 8, 1, True, 8)))
print(attempt(lambda: run((1,), 8, 1)))
print(attempt(lambda: run((1,), 8, 1, True, 8, n=3)))
print(attempt(lambda: failing[(1,)](values)))
"""


@pytest.fixture(scope="module")
def printed() -> dict[bool, list[str]]:
    """Return what the program prints with Triton's launch and with ours."""
    lines = {}
    for fast in (False, True):
        # A kernel's source has to be in a file for the interpreter to rewrite it.
        path = HERE / f".launch_{int(fast)}.py"
        path.write_text(PROGRAM.replace("{fast}", str(fast)))
        try:
            run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=True)
        finally:
            path.unlink()
        lines[fast] = run.stdout.splitlines()
    return lines


@pytest.mark.parametrize("line", range(8))
def test_launch_agrees_with_triton(printed: dict[bool, list[str]], line: int) -> None:
    assert printed[True][line] == printed[False][line]


def test_the_program_reaches_results_and_failures(printed: dict[bool, list[str]]) -> None:
    kinds = ["result" if line.startswith("[[") else line.split("'")[1] for line in printed[False]]
    assert kinds[:3] == ["result"] * 3
    assert kinds[4:] == ["AssertionError", "TypeError", "TypeError", "InterpreterError"]
