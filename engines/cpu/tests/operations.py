"""Operations on the language's tensors, evaluated outside a kernel: what test_equivalence compares."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DTYPES = (
    tl.int1, tl.int8, tl.uint8, tl.int16, tl.int32, tl.uint32, tl.int64, tl.uint64,
    tl.float16, tl.bfloat16, tl.float32, tl.float64,
)  # fmt: skip
SHAPES: tuple[tuple[int, ...], ...] = ((), (4,), (1, 4), (2, 1))
NUMBERS = (0, 1, -3, 7, 2**31, 2**40, 1.5, -0.25, float("-inf"), True)
BINARY = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip
STORAGE = {
    "int1": np.bool_, "bf16": np.uint16, "fp16": np.float16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip


def tensor(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Return a tensor of small values, zero and negative ones among them where the type has them."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-4, 5, size=shape or (1,))
    if dtype.is_int_unsigned():
        values = np.abs(values)
    if dtype.is_floating():
        values = values + generator.random(values.shape)
    if dtype.name == "bf16":
        data = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        data = values.astype(STORAGE.get(dtype.name, dtype.name))
    return tl.tensor(TensorHandle(data, dtype), tl.block_type(dtype, list(shape)) if shape else dtype)


def outcome(call: Callable[[], Any]) -> tuple[str, ...]:
    """Return what a call gives as text: type and values, or the kind of exception."""
    with np.errstate(all="ignore"):
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - the kind of failure is what is compared
            return ("raises", type(error).__name__)
    data = found.handle.data
    return (str(found.type), str(found.dtype), str(data.shape), str(data.dtype), str(data.tolist()))


def pairs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every binary operation on two tensors and on a tensor and a number, both ways round."""
    for op, left, right in itertools.product(BINARY, DTYPES, DTYPES):
        for shape, other in (((), ()), ((4,), ()), ((), (4,)), ((4,), (4,)), ((1, 4), (2, 1)), ((4,), (2, 1))):
            a, b = tensor(left, shape), tensor(right, other, seed=1)
            yield f"{op.__name__} {left}{shape} {right}{other}", lambda op=op, a=a, b=b: op(a, b)
    for op, dtype, number, shape in itertools.product(BINARY, DTYPES, NUMBERS, ((), (4,))):
        a = tensor(dtype, shape)
        yield f"{op.__name__} {dtype}{shape} {number}", lambda op=op, a=a, number=number: op(a, number)
        yield f"{op.__name__} {number} {dtype}{shape}", lambda op=op, a=a, number=number: op(number, a)
        constant = tl.constexpr(number)
        yield f"{op.__name__} {dtype}{shape} constexpr {number}", lambda op=op, a=a, c=constant: op(a, c)


def functions() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield casts, inversions, where, minimum and maximum."""
    for source, target, shape in itertools.product(DTYPES, DTYPES, SHAPES):
        a = tensor(source, shape)
        yield f"cast {source}{shape} {target}", lambda a=a, target=target: a.to(target)
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        a = tensor(dtype, shape)
        yield f"invert {dtype}{shape}", lambda a=a: ~a
        yield f"negate {dtype}{shape}", lambda a=a: -a
    for condition, left, right in itertools.product(((), (4,), (2, 1)), DTYPES, DTYPES):
        c, a, b = tensor(tl.int1, condition), tensor(left, (4,)), tensor(right, (), seed=1)
        for name in ("minimum", "maximum"):
            yield f"{name} {left} {right}", lambda name=name, a=a, b=b: getattr(tl, name)(a, b)
        yield f"where {condition} {left} {right}", lambda c=c, a=a, b=b: tl.where(c, a, b)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        c, a = tensor(tl.int1, (4,)), tensor(dtype, ())
        yield f"where {dtype} {number}", lambda c=c, a=a, number=number: tl.where(c, a, number)
        yield f"where {number} {dtype}", lambda c=c, a=a, number=number: tl.where(c, number, a)
        for name in ("minimum", "maximum"):
            yield f"{name} {dtype} {number}", lambda name=name, a=a, n=number: getattr(tl, name)(a, n)
            yield f"{name} {number} {dtype}", lambda name=name, a=a, n=number: getattr(tl, name)(n, a)


TORCH_TYPES = {
    torch.bool: tl.int1, torch.int8: tl.int8, torch.uint8: tl.uint8, torch.int32: tl.int32, torch.int64: tl.int64,
    torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32,
}  # fmt: skip
MEMORY = {kind: torch.arange(-2, 14).to(kind) for kind in TORCH_TYPES}


def address(kind: torch.dtype, memory: torch.Tensor) -> Any:
    """Return a scalar pointer to `memory`."""
    pointer = tl.pointer_type(TORCH_TYPES[kind])
    return tl.tensor(TensorHandle(np.array([memory.data_ptr()], dtype=np.uint64), pointer), pointer)


def memory() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield loads and stores: scalar and block, with masks and replacements of every kind."""
    masks = (None, True, tensor(tl.int1, ()), tensor(tl.int1, (4,)))
    others = (None, 0, -1, float("-inf"), tensor(tl.int32, ()), tensor(tl.float32, (4,)))
    for kind, mask, other, block in itertools.product(TORCH_TYPES, masks, others, (False, True)):
        label = f"{kind} mask {getattr(mask, 'type', mask)} other {getattr(other, 'type', other)} block {block}"

        def load(kind: Any = kind, mask: Any = mask, other: Any = other, block: bool = block) -> Any:
            pointer = address(kind, MEMORY[kind])
            return tl.load(pointer + tl.arange(0, 4) if block else pointer + 1, mask=mask, other=other)

        def store(kind: Any = kind, mask: Any = mask, other: Any = other, block: bool = block) -> Any:
            target = torch.zeros(4).to(kind)
            pointer = address(kind, target)
            tl.store(pointer + tl.arange(0, 4) if block else pointer + 1, 3 if other is None else other, mask=mask)
            data = np.array(target.float().tolist())
            return tl.tensor(TensorHandle(data, tl.float64), tl.block_type(tl.float64, [4]))

        yield f"load {label}", load
        yield f"store {label}", store


def everything() -> dict[str, Callable[[], Any]]:
    """Return each operation under its description."""
    return dict(itertools.chain(pairs(), functions(), memory()))
