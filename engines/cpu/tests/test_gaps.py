"""Each gap: the kernel gives what a GPU gives with the fix, and fails or is wrong without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from specdeck_triton_cpu import gaps

gaps.close()

import kernels  # noqa: E402 - after the fixes, as in the engine

HERE = Path(__file__).parent
BLOCK = 16


def random(dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(BLOCK, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check_scalar_condition_in_mask() -> None:
    out, state = torch.full((BLOCK,), -1, dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    kernels.scalar_condition_in_mask[(1,)](out, state, 5, BLOCK=BLOCK)
    assert out.tolist() == [0, 1, 2, 3, 4] + [-1] * 11


def check_loop_variable() -> None:
    out = torch.full((4, BLOCK), -1, dtype=torch.int32)
    kernels.loop_variable[(2,)](out, 4, BLOCK=BLOCK)
    assert out[:, 0].tolist() == [0, 1, 2, 3]


def check_log1p_and_isnan() -> None:
    x = torch.rand(BLOCK)
    x[3] = float("nan")
    out, nans = torch.empty(BLOCK), torch.zeros(BLOCK, dtype=torch.bool)
    kernels.log1p_and_isnan[(1,)](x, out, nans, BLOCK=BLOCK)
    torch.testing.assert_close(out, torch.log1p(x), equal_nan=True)
    assert nans.nonzero().flatten().tolist() == [3]


def check_bfloat16_arithmetic() -> None:
    a, b = random(torch.bfloat16, 1), random(torch.bfloat16, 2)
    total, product, at_least = torch.empty_like(a), torch.empty_like(a), torch.empty(BLOCK, dtype=torch.int32)
    kernels.bfloat16_arithmetic[(1,)](a, b, total, product, at_least, BLOCK=BLOCK)
    assert torch.equal(total, a + b)
    assert torch.equal(product, a * b)
    assert torch.equal(at_least.bool(), a >= b)


def check_bfloat16_conversions() -> None:
    f32 = random(torch.float32, 3)
    f32[0], f32[1], f32[2] = float("inf"), float("nan"), 1.0 + 2.0**-8  # the last is a tie: it goes to even
    i32 = torch.arange(-8, 8, dtype=torch.int32) * 1001
    from_f32, from_i32 = torch.empty(BLOCK, dtype=torch.bfloat16), torch.empty(BLOCK, dtype=torch.bfloat16)
    back = torch.empty(BLOCK)
    kernels.bfloat16_conversions[(1,)](f32, i32, from_f32, from_i32, back, BLOCK=BLOCK)
    torch.testing.assert_close(from_f32, f32.bfloat16(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(back, f32.bfloat16().float(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(from_i32, i32.bfloat16())


def check_bfloat16_sum_and_maximum() -> None:
    x, out = random(torch.bfloat16, 4), torch.empty(2, dtype=torch.bfloat16)
    kernels.bfloat16_sum_and_maximum[(1,)](x, out, BLOCK=BLOCK)
    torch.testing.assert_close(out[0], x.float().sum().bfloat16(), rtol=0.02, atol=0.02)
    assert out[1] == x.max()


def check_rank_of_token() -> None:
    logits, token = random(torch.bfloat16, 5) - 2, torch.tensor([7])
    out = torch.zeros(1, dtype=torch.int32)
    kernels.rank_of_token[(1,)](out, logits, token, 11, BLOCK=BLOCK)
    assert out.item() == int((logits[:11] >= logits[7]).sum())


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


@pytest.mark.parametrize("name", CHECKS)
def test_kernel_gives_the_compiled_result(name: str) -> None:
    CHECKS[name]()


@pytest.fixture(scope="session")
def failing_without_fixes() -> set[str]:
    """Run every check in a process whose interpreter is Triton's own; return those that fail."""
    program = (
        "from specdeck_triton_cpu import gaps\n"
        "gaps.close = lambda: None\n"
        "import test_gaps\n"
        "for name, check in test_gaps.CHECKS.items():\n"
        "    try:\n"
        "        check()\n"
        "    except Exception:\n"
        "        print('FAILS', name)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=100, check=True
    )
    return {line.removeprefix("FAILS ") for line in run.stdout.splitlines() if line.startswith("FAILS ")}


@pytest.mark.parametrize("name", CHECKS)
def test_kernel_fails_without_the_fixes(name: str, failing_without_fixes: set[str]) -> None:
    assert name in failing_without_fixes, "the interpreter does this right by itself now: drop the fix"
