"""Short paths for the language's functions: loads, stores, casts, where, ranges.

Like fast_tensor: only where the result is the interpreter's own, bit for bit; otherwise the interpreter does it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder

from specdeck_triton_cpu.bfloat16 import narrow, widen
from specdeck_triton_cpu.fast_tensor import (
    FLOATS,
    INTEGERS,
    PLAIN,
    Promotion,
    block_of,
    fits,
    make_tensor,
    result_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

BFLOAT16_STORAGE = np.dtype(np.uint16)
_memory = interpreter._interpreter  # noqa: SLF001 - the compiled half of the interpreter
_storage = interpreter._get_np_dtype  # noqa: SLF001


def _value(argument: Any) -> Any:
    return argument.value if type(argument) is tl.constexpr else argument


def storage_type(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy type that stores a Triton type; the interpreter builds a table at each question."""
    found = dtype.__dict__.get("_storage")
    if found is None:
        found = dtype.__dict__["_storage"] = _storage(dtype)
    return found


def cast_short(tensor: Any, dtype: Any) -> Any:
    """Return `tensor` as the scalar type `dtype`, or None where the interpreter has to do it."""
    source = tensor.dtype
    if source is dtype or source.name == dtype.name:
        return tensor
    data = tensor.handle.data
    if source.name == "bf16" and dtype.name == "fp32":
        return make_tensor(widen(data), dtype, result_type(tensor, tensor, data, dtype))
    if source.name == "fp32" and dtype.name == "bf16":
        return make_tensor(narrow(data), dtype, result_type(tensor, tensor, data, dtype))
    plain = PLAIN.get(dtype.name)
    if plain is None or source.name not in PLAIN:
        return None
    if data.dtype != PLAIN[source.name]:
        return None
    if plain.kind == "b":
        data = data != 0
    elif source.name in FLOATS and dtype.name in FLOATS and plain.itemsize < data.dtype.itemsize:
        return None
    else:
        data = data.astype(plain)
    return make_tensor(data, dtype, result_type(tensor, tensor, data, dtype))


def _cast(slow: Callable[..., Any]) -> Callable[..., Any]:
    def cast(tensor: Any, dst_ty: Any, fp_downcast_rounding: str | None = None) -> Any:
        if fp_downcast_rounding is None and not dst_ty.is_block():
            found = cast_short(tensor, dst_ty)
            if found is not None:
                return found
        return slow(tensor, dst_ty, fp_downcast_rounding)

    return cast


def _to(slow: Callable[..., Any]) -> Callable[..., Any]:
    def to(self: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False, **keywords: Any) -> Any:
        wanted = _value(dtype)
        if fp_downcast_rounding is None and not bitcast and isinstance(wanted, tl.dtype) and not wanted.is_block():
            found = cast_short(self, wanted)
            if found is not None:
                return found
        return slow(self, dtype, fp_downcast_rounding, bitcast, **keywords)

    return to


def _fill(value: Any, element: Any, shape: tuple[int, ...]) -> Array | None:
    """Return `value`, a number or a tensor, as an array of `element`'s storage and `shape`; None if not plain."""
    plain = BFLOAT16_STORAGE if element.name == "bf16" else PLAIN.get(element.name)
    if plain is None:
        return None
    if type(value) is tl.tensor:
        converted = cast_short(value, element)
        if converted is None or converted.handle.data.dtype != plain:
            return None
        data = converted.handle.data
        if data.shape == shape:
            return data
        return np.broadcast_to(data, shape) if data.ndim <= len(shape) else None
    if type(value) in (int, float) and fits(value, element):
        return np.full(shape, value, dtype=plain)
    return None


def _mask(mask: Any, shape: tuple[int, ...]) -> Array | None:
    """Return a mask as a bool array of `shape`; None where the interpreter must look at it."""
    if type(mask) is not tl.tensor or mask.dtype.name != "int1":
        return None
    data = mask.handle.data
    if data.dtype != np.bool_:
        return None
    if data.shape == shape:
        return data
    return np.broadcast_to(data, shape) if data.ndim <= len(shape) else None


@functools.lru_cache(maxsize=256)
def _all_true(shape: tuple[int, ...]) -> Array:
    """Return the mask of an access that has none, one read-only array for each shape."""
    data = np.ones(shape, dtype=np.bool_)
    data.flags.writeable = False
    return data


@functools.lru_cache(maxsize=256)
def _all_zero(shape: tuple[int, ...], storage: np.dtype[Any]) -> Array:
    """Return what a masked load gives where nothing is named, one read-only array for each shape and type."""
    data = np.zeros(shape, dtype=storage)
    data.flags.writeable = False
    return data


def _pointers(pointer: Any) -> tuple[Any, Array] | None:
    if type(pointer) is not tl.tensor or not pointer.dtype.is_ptr():
        return None
    element = pointer.dtype.element_ty
    if element.name == "int1" or element.is_ptr():
        return None
    return element, pointer.handle.data


def _load(slow: Callable[..., Any]) -> Callable[..., Any]:
    def load(pointer: Any, mask: Any = None, other: Any = None, **keywords: Any) -> Any:
        found = _pointers(pointer)
        mask, other = _value(mask), _value(other)
        if found is None or (mask is None and other is not None):
            return slow(pointer, mask, other, **keywords)
        element, addresses = found
        storage, is_block = storage_type(element), pointer.type.is_block()
        if mask is None:
            valid: Array | None = _all_true(addresses.shape)
        elif not is_block and type(mask) is tl.tensor and mask.type.is_block():
            valid = None
        else:
            valid = _mask(mask, addresses.shape)
        if valid is None:
            return slow(pointer, mask, other, **keywords)
        if other is None:
            rest: Array | None = _all_zero(addresses.shape, storage)
        elif not is_block and type(other) is tl.tensor and other.type.is_block():
            rest = None
        else:
            rest = _fill(other, element, addresses.shape)
        if rest is None:
            return slow(pointer, mask, other, **keywords)
        data = _memory.load(addresses, valid, rest, storage)
        return make_tensor(data, element, block_of(element, addresses.shape) if is_block else element)

    return load


def _store(slow: Callable[..., Any]) -> Callable[..., Any]:
    def store(pointer: Any, value: Any, mask: Any = None, **keywords: Any) -> Any:
        found = _pointers(pointer)
        mask, number = _value(mask), _value(value)
        if found is None or pointer.dtype.is_const():
            return slow(pointer, value, mask, **keywords)
        element, addresses = found
        if not pointer.type.is_block() and any(
            type(operand) is tl.tensor and operand.type.is_block() for operand in (number, mask)
        ):
            return slow(pointer, value, mask, **keywords)
        data = _fill(number, element, addresses.shape)
        valid = _all_true(addresses.shape) if mask is None else _mask(mask, addresses.shape)
        if data is None or valid is None:
            return slow(pointer, value, mask, **keywords)
        return make_tensor(_memory.store(addresses, data, valid), tl.void, tl.void)

    return store


def _where(slow: Callable[..., Any], promote: Promotion) -> Callable[..., Any]:
    def where(condition: Any, x: Any, y: Any, **keywords: Any) -> Any:
        left, right = _value(x), _value(y)
        if type(condition) is not tl.tensor or condition.dtype.name != "int1":
            return slow(condition, x, y, **keywords)
        tensors = [operand for operand in (left, right) if type(operand) is tl.tensor]
        if len(tensors) == 2:
            common = promote(left.dtype, right.dtype)
            dtype = None if common is None else common[0]
        elif len(tensors) == 1:
            number = right if tensors[0] is left else left
            dtype = tensors[0].dtype if fits(number, tensors[0].dtype) else None
        else:
            dtype = None
        plain = None if dtype is None else PLAIN.get(dtype.name)
        if plain is None:
            return slow(condition, x, y, **keywords)
        chosen = condition.handle.data
        arrays = [
            operand.handle.data if type(operand) is tl.tensor else plain.type(operand) for operand in (left, right)
        ]
        if chosen.dtype != np.bool_:
            return slow(condition, x, y, **keywords)
        data = np.where(chosen, *(array if array.dtype == plain else array.astype(plain) for array in arrays))
        kind = result_type(condition, tensors[0], data, dtype)
        if len(tensors) == 2:
            kind = kind if kind.is_block() else result_type(condition, tensors[1], data, dtype)
        return make_tensor(data, dtype, kind)

    return where


def _extremum(slow: Callable[..., Any], op: Callable[..., Any], promote: Promotion) -> Callable[..., Any]:
    """Shorten minimum and maximum of integers; floats keep the interpreter's treatment of NaN."""

    def extremum(x: Any, y: Any, **keywords: Any) -> Any:
        left, right = _value(x), _value(y)
        if type(left) is not tl.tensor and type(right) is tl.tensor:
            left, right = right, left
        if type(left) is tl.tensor and left.dtype.name in INTEGERS:
            if type(right) is tl.tensor:
                common = promote(left.dtype, right.dtype)
                if common is not None and common[1].kind in "iu":
                    dtype, plain = common
                    data = op(left.handle.data.astype(plain), right.handle.data.astype(plain))
                    return make_tensor(data, dtype, result_type(left, right, data, dtype))
            elif type(right) is int and fits(right, left.dtype):
                data = op(left.handle.data, right)
                return make_tensor(data, left.dtype, left.type)
        return slow(x, y, **keywords)

    return extremum


def _arange(slow: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[int, int], tuple[Array, Any]] = {}

    def arange(start: Any, end: Any, **keywords: Any) -> Any:
        key = (_value(start), _value(end))
        found = known.get(key)
        if found is None or keywords.keys() - {"_semantic"}:
            made = slow(start, end, **keywords)
            data = made.handle.data
            data.flags.writeable = False
            if not keywords.keys() - {"_semantic"}:
                known[key] = (data, made.type)
            return made
        data, kind = found
        return make_tensor(data, tl.int32, kind)

    return arange


def _program_id(slow: Callable[..., Any], builder: Any) -> Callable[..., Any]:
    def program_id(axis: Any, **keywords: Any) -> Any:
        axis = _value(axis)
        if axis not in (0, 1, 2) or builder.grid_idx is None:
            return slow(axis, **keywords)
        return make_tensor(np.array([builder.grid_idx[axis]], dtype=np.int32), tl.int32, tl.int32)

    return program_id


def _to_tensor(slow: Callable[..., Any]) -> Callable[..., Any]:
    def to_tensor(x: Any, check_type: Any = True) -> Any:
        return x if type(x) is tl.tensor else slow(x, check_type)

    return to_tensor


def install(semantic: Any, builder: Any) -> None:
    """Put the short paths into the language, around the interpreter's functions that are there already."""
    promote = Promotion(semantic, division=False)
    makers = {
        "load": _load,
        "store": _store,
        "where": lambda slow: _where(slow, promote),
        "minimum": lambda slow: _extremum(slow, np.minimum, promote),
        "maximum": lambda slow: _extremum(slow, np.maximum, promote),
        "arange": _arange,
        "program_id": lambda slow: _program_id(slow, builder),
    }
    for name, make in makers.items():
        for module in (tl, tl.core):
            setattr(module, name, make(getattr(module, name)))
    tl.tensor.to = _to(tl.tensor.to)
    semantic.cast = _cast(semantic.cast)
    semantic.to_tensor = _to_tensor(semantic.to_tensor)
    interpreter._get_np_dtype = storage_type  # noqa: SLF001
    # The interpreter computes each integer operation twice to look for overflow, and reports none unless debugging.
    assert isinstance(builder, InterpreterBuilder)
    if not builder.options.debug:
        builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
