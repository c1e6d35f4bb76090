"""Closes the gaps between Triton's interpreter and what vLLM's kernels ask of it.

Each fix gives what the compiled kernel gives; none changes a result that the interpreter has right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

from specdeck_triton_cpu.bfloat16 import narrow, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Function = Callable[..., Any]

# libdevice functions of one floating argument whose result has the argument's type.
UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "rint": np.rint,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
# libdevice predicates: their result is int32, as in CUDA.
PREDICATES: dict[str, Callable[[Array], Array]] = {
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "signbit": np.signbit,
}


def close() -> None:
    """Patch the interpreter and libdevice's placeholders. Calling it again changes nothing."""
    if getattr(InterpreterBuilder, "_specdeck_gaps_closed", False):
        return
    InterpreterBuilder._specdeck_gaps_closed = True  # noqa: SLF001 - our own mark
    _compute_bfloat16_in_float32()
    _type_comparisons_as_int1()
    _make_loop_variables_tensors()
    _define_libdevice()


def _is_bfloat16(value: Any) -> bool:
    return bool(value.dtype.scalar == tl.bfloat16)


def _wide(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(widen(handle.data), tl.float32) if _is_bfloat16(handle) else handle


def _narrow(handle: TensorHandle) -> TensorHandle:
    """Return a float32 result as bfloat16; a comparison's result as it is."""
    return handle if handle.data.dtype == np.bool_ else TensorHandle(narrow(handle.data), tl.bfloat16)


def _compute_bfloat16_in_float32() -> None:
    """Compute on bfloat16 values: the interpreter computes on their bit patterns, as unsigned integers."""

    def around(name: str, operands: int, *, result: Function = _narrow) -> None:
        slow = getattr(InterpreterBuilder, name)

        def method(self: Any, *args: Any) -> Any:
            if not _is_bfloat16(args[0]):
                return slow(self, *args)
            return result(slow(self, *map(_wide, args[:operands]), *args[operands:]))

        setattr(InterpreterBuilder, name, method)

    around("binary_op", 2)
    around("unary_op", 1)
    around("create_fma", 3)
    around("create_clampf", 3)
    around("create_dot", 2, result=lambda handle: handle)

    cast = InterpreterBuilder.cast_impl

    def cast_impl(self: Any, src: TensorHandle, dst_type: Any) -> TensorHandle:
        if not _is_bfloat16(src) and dst_type.scalar != tl.bfloat16:
            return cast(self, src, dst_type)
        wide = _wide(src)
        if dst_type.scalar != tl.bfloat16:
            return wide if dst_type.scalar == tl.float32 else cast(self, wide, dst_type)
        return TensorHandle(narrow(wide.data.astype(np.float32)), tl.bfloat16)

    InterpreterBuilder.cast_impl = cast_impl

    def reduction(owner: type, name: str) -> None:
        slow = getattr(owner, name)

        def method(self: Any, value: Any, *args: Any, **keywords: Any) -> Any:
            first = value[0] if isinstance(value, tuple) else value
            if not _is_bfloat16(first):
                return slow(self, value, *args, **keywords)
            found = slow(self, _retyped(first, widen(first.handle.data), tl.float32), *args, **keywords)
            parts = [
                _retyped(part, narrow(part.handle.data), tl.bfloat16) if part.dtype == tl.float32 else part
                for part in (found if isinstance(found, list | tuple) else [found])
            ]
            return type(found)(parts) if isinstance(found, list | tuple) else parts[0]

        setattr(owner, name, method)

    reduction(ReduceOps, "sum")
    reduction(ReduceOps, "min_max")
    reduction(ScanOps, "cumsum")
    reduction(ScanOps, "cumprod")


def _retyped(like: tl.tensor, data: Array, dtype: tl.dtype) -> tl.tensor:
    """Return a tensor of `like`'s shape around `data`."""
    kind = tl.block_type(dtype, list(data.shape)) if like.type.is_block() else dtype
    return tl.tensor(TensorHandle(data, dtype), kind)


def _type_comparisons_as_int1() -> None:
    """Type a comparison's handle as int1: it kept the operands' type, in which a scalar mask was then spread."""
    slow = InterpreterBuilder.binary_op

    def binary_op(self: Any, lhs: TensorHandle, rhs: TensorHandle, op: Function) -> TensorHandle:
        found = slow(self, lhs, rhs, op)
        if found.data.dtype == np.bool_:
            found.dtype = tl.int1
        return found

    InterpreterBuilder.binary_op = binary_op


def _loop(arg1: Any, arg2: Any = None, step: Any = None, **_hints: Any) -> Iterator[tl.tensor]:
    """Yield the values of a tl.range loop as int32 scalars, which is what they are when compiled."""
    numbers = range(arg1) if arg2 is None else range(arg1, arg2, 1 if step is None else step)
    for number in numbers:
        yield tl.tensor(TensorHandle(np.array([number], dtype=np.int32), tl.int32), tl.int32)


def _make_loop_variables_tensors() -> None:
    """Make tl.range yield tensors: kernels call .to() on a loop variable, and the interpreter yields ints."""
    patch = interpreter._patch_lang_core  # noqa: SLF001 - where the interpreter puts its range in place

    def patch_lang_core(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        scope.set_attr(lang, "range", _loop)

    interpreter._patch_lang_core = patch_lang_core  # noqa: SLF001


def _define_libdevice() -> None:
    """Give libdevice's placeholders, which return None, the meaning of the functions they stand for."""

    def unary(op: Callable[[Array], Array]) -> Callable[[tl.tensor], tl.tensor]:
        def call(arg0: tl.tensor) -> tl.tensor:
            data = arg0.handle.data
            return _retyped(arg0, op(data).astype(data.dtype, copy=False), arg0.dtype)

        return call

    def predicate(op: Callable[[Array], Array]) -> Callable[[tl.tensor], tl.tensor]:
        def call(arg0: tl.tensor) -> tl.tensor:
            return _retyped(arg0, op(arg0.handle.data).astype(np.int32), tl.int32)

        return call

    for name, function in UNARY.items():
        setattr(libdevice, name, unary(function))
    for name, function in PREDICATES.items():
        setattr(libdevice, name, predicate(function))
