"""Closes the gaps between Triton's interpreter and what vLLM's kernels ask of it.

Each fix restores what the compiled kernel would do; none changes a result that the interpreter had right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl
import triton.language.extra.libdevice as libdevice
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

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
# libdevice functions of two floating arguments of one type.
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "nextafter": np.nextafter,
    "pow": np.power,
}


def close() -> None:
    """Patch the interpreter and libdevice's placeholders. Calling it again changes nothing."""
    if getattr(InterpreterBuilder, "_specdeck_gaps_closed", False):
        return
    InterpreterBuilder._specdeck_gaps_closed = True  # noqa: SLF001 - our own mark
    _accept_integer_masks()
    _define_libdevice()


def _boolean(mask: TensorHandle) -> TensorHandle:
    """Return the mask as int1: the compiler casts any integer mask, the interpreter refuses it."""
    if mask.data.dtype == np.bool_:
        return mask
    return TensorHandle(mask.data.astype(np.bool_), tl.int1)


def _accept_integer_masks() -> None:
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def create_masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        return load(self, ptrs, _boolean(mask), *rest)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return store(self, ptrs, value, _boolean(mask), *rest)

    InterpreterBuilder.create_masked_load = create_masked_load
    InterpreterBuilder.create_masked_store = create_masked_store


def _as_tensor(data: Array, dtype: tl.dtype, like: tl.tensor) -> tl.tensor:
    kind = tl.block_type(dtype, list(like.shape)) if like.type.is_block() else dtype
    return tl.tensor(TensorHandle(data, dtype), kind)


def _define_libdevice() -> None:
    """Give libdevice's placeholders, which return None, the meaning of the functions they stand for."""

    def unary(op: Callable[[Array], Array]) -> Callable[[tl.tensor], tl.tensor]:
        def call(arg0: tl.tensor) -> tl.tensor:
            data = arg0.handle.data
            return _as_tensor(op(data).astype(data.dtype, copy=False), arg0.dtype, arg0)

        return call

    def predicate(op: Callable[[Array], Array]) -> Callable[[tl.tensor], tl.tensor]:
        def call(arg0: tl.tensor) -> tl.tensor:
            return _as_tensor(op(arg0.handle.data).astype(np.int32), tl.int32, arg0)

        return call

    for name, function in UNARY.items():
        setattr(libdevice, name, unary(function))
    for name, function in PREDICATES.items():
        setattr(libdevice, name, predicate(function))
