"""Kernels that the tests run, each through one gap or one family of operations."""
# ruff: noqa: N803 - compile-time arguments are written in capitals in Triton

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scalar_condition_in_mask(out, state, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    valid = tl.load(state) >= 0
    tl.store(out + offsets, offsets, mask=(offsets < n) & valid)


@triton.jit
def loop_variable(out, n, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), n, 2):
        tl.store(out + row.to(tl.int64) * BLOCK + tl.arange(0, BLOCK), row)


@triton.jit
def log1p_and_isnan(x, out, nans, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.store(out + offsets, libdevice.log1p(values))
    tl.store(nans + offsets, libdevice.isnan(values).to(tl.int1))


@triton.jit
def bfloat16_arithmetic(a, b, total, product, at_least, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x, y = tl.load(a + offsets), tl.load(b + offsets)
    tl.store(total + offsets, x + y)
    tl.store(product + offsets, x * y)
    tl.store(at_least + offsets, (x >= y).to(tl.int32))


@triton.jit
def bfloat16_conversions(f32, i32, from_f32, from_i32, back, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    rounded = tl.load(f32 + offsets).to(tl.bfloat16)
    tl.store(from_f32 + offsets, rounded)
    tl.store(from_i32 + offsets, tl.load(i32 + offsets).to(tl.bfloat16))
    tl.store(back + offsets, rounded.to(tl.float32))


@triton.jit
def bfloat16_sum_and_maximum(x, out, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.sum(values))
    tl.store(out + 1, tl.max(values))


@triton.jit
def rank_of_token(out, logits, token, vocab, BLOCK: tl.constexpr):
    x = tl.load(logits + tl.load(token))
    count = 0
    for i in range(0, vocab, BLOCK):
        block = i + tl.arange(0, BLOCK)
        row = tl.load(logits + block, mask=block < vocab, other=float("-inf"))
        count += tl.sum((row >= x).to(tl.int32))
    tl.store(out, count)
