"""Short paths for the interpreter's tensors: cheap construction, cached types, direct NumPy operators.

A short path is taken only where operand types make its result the same as the interpreter's own, bit for
bit; everything else goes to the interpreter. tests/test_equivalence.py compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Operator = Callable[..., Any]

# The types whose interpreter storage is the plain NumPy type (bfloat16 and the 8-bit floats are not).
PLAIN: dict[str, np.dtype[Any]] = {
    "int1": np.dtype(np.bool_),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int64": np.dtype(np.int64),
    "uint64": np.dtype(np.uint64),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
}
INTEGERS = {
    name: (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for name, kind in PLAIN.items() if kind.kind in "iu"
}
FLOATS = ("fp32", "fp64")
INT1 = tl.int1

_new = object.__new__


def make_handle(data: Array, dtype: Any) -> TensorHandle:
    """Return a handle without the dataclass's checks, which the caller's types already imply."""
    handle = _new(TensorHandle)
    handle.data = data
    handle.dtype = dtype
    handle.attr = {}
    return handle


def block_of(element: Any, shape: tuple[int, ...]) -> Any:
    """Return the block type of `element` and `shape`, one object for each element type object."""
    cache = element.__dict__.get("_blocks")
    if cache is None:
        cache = element.__dict__["_blocks"] = {}
    block = cache.get(shape)
    if block is None:
        block = cache[shape] = tl.block_type(element, list(shape))
    return block


def make_tensor(data: Array, dtype: Any, kind: Any) -> Any:
    """Return a tensor of type `kind` (a block, or `dtype` itself for a scalar) around `data`."""
    return tl.tensor(make_handle(data, dtype), kind)


def _init(self: Any, handle: Any, type: Any) -> None:  # noqa: A002 - Triton's own parameter name
    """Replace tensor.__init__: what follows from the type is computed once for each type object."""
    facts = type.__dict__.get("_facts")
    if facts is None:
        shape = type.shape if type.is_block() else ()
        numel = 1
        for size in shape:
            numel *= size
        facts = type.__dict__["_facts"] = (
            tl.tuple([tl.constexpr(size) for size in shape]),
            tl.constexpr(numel),
            type.scalar,
        )
    self.handle = handle
    self.type = type
    self.shape, self.numel, self.dtype = facts


def _with_element_ty(self: Any, scalar_ty: Any) -> Any:
    return block_of(scalar_ty, tuple(self.shape))


def result_type(a: Any, b: Any, data: Array, dtype: Any) -> Any:
    """Return the type of an elementwise result: a scalar's only when both operands are scalars."""
    if a.type.is_block() or b.type.is_block():
        return block_of(dtype, data.shape)
    return dtype


class Promotion:
    """Which type two operands are computed in, asked once of the interpreter for each pair of types."""

    def __init__(self, semantic: Any, *, division: bool) -> None:
        self.semantic = semantic
        self.division = division
        self.known: dict[tuple[str, str], tuple[Any, Any] | None] = {}

    def __call__(self, a: Any, b: Any) -> tuple[Any, Any] | None:
        """Return (Triton type, NumPy type), or None where the interpreter has to do it."""
        key = (a.name, b.name)
        try:
            return self.known[key]
        except KeyError:
            pass
        found = None
        if a.name in PLAIN and b.name in PLAIN:
            try:
                common = self.semantic.computation_type_impl(a, False, b, False, self.division)
            except TypeError:
                common = None
            if common is not None and common.name in PLAIN:
                found = (getattr(tl, common.codegen_name()), PLAIN[common.name])
        self.known[key] = found
        return found


def fits(value: Any, dtype: Any) -> bool:
    """Return whether a Python number takes part in an operation without changing the tensor's type."""
    if type(value) is int:
        bounds = INTEGERS.get(dtype.name)
        return dtype.name in FLOATS if bounds is None else bounds[0] <= value <= bounds[1]
    return type(value) is float and dtype.name in FLOATS


def integer_division(a: Array, b: Any) -> Array:
    """Divide rounding towards zero, by the interpreter's own expression."""
    quotient: Array = (a - np.fmod(a, b)) // b
    return quotient


ARITHMETIC: dict[str, tuple[Operator, bool, str]] = {
    # method: (NumPy operation, division rules, kinds of computed type it holds for)
    "add": (np.add, False, "iuf"),
    "sub": (np.subtract, False, "iuf"),
    "mul": (np.multiply, False, "iuf"),
    "truediv": (np.divide, True, "f"),
    "floordiv": (integer_division, True, "iu"),
    "mod": (np.fmod, True, "iuf"),
    "and": (np.bitwise_and, False, "iub"),
    "or": (np.bitwise_or, False, "iub"),
    "xor": (np.bitwise_xor, False, "iub"),
    "lshift": (np.left_shift, False, "iu"),
}
COMPARISONS: dict[str, Operator] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


def _elementwise(
    slow: Operator, op: Operator, promote: Promotion, kinds: str, *, compares: bool, reflected: bool
) -> Operator:
    """Build the short path of one binary operator around the interpreter's own, `slow`."""

    def short(self: Any, other: Any, **keywords: Any) -> Any:
        if type(other) is tl.constexpr:
            other = other.value
        a = self.handle.data
        if type(other) is tl.tensor:
            common = promote(self.dtype, other.dtype)
            if common is None or common[1].kind not in kinds:
                return slow(self, other, **keywords)
            dtype, plain = common
            b = other.handle.data
            if a.dtype != plain:
                a = a.astype(plain)
            if b.dtype != plain:
                b = b.astype(plain)
        else:
            dtype = self.dtype
            plain = PLAIN.get(dtype.name)
            if plain is None or plain.kind not in kinds or a.dtype != plain or not fits(other, dtype):
                return slow(self, other, **keywords)
            b = other
        data = op(b, a) if reflected else op(a, b)
        if compares:
            dtype = INT1
        if type(other) is tl.tensor:
            return make_tensor(data, dtype, result_type(self, other, data, dtype))
        return make_tensor(data, dtype, result_type(self, self, data, dtype))

    return short


def _pointer_or(short: Operator, slow: Operator) -> Operator:
    """Add pointer + integer offset to the short path of an addition."""

    def add(self: Any, other: Any, **keywords: Any) -> Any:
        pointer = self.dtype
        if not pointer.is_ptr():
            if type(other) is tl.tensor and other.dtype.is_ptr():
                return add(other, self, **keywords)
            return short(self, other, **keywords)
        if type(other) is tl.constexpr:
            other = other.value
        width = max(1, pointer.element_ty.primitive_bitwidth // 8)
        if type(other) is int and -(2**31) <= other < 2**31:
            data = self.handle.data + np.uint64(width * other % 2**64)
            return make_tensor(data, pointer, result_type(self, self, data, pointer))
        if type(other) is tl.tensor and other.dtype.name in INTEGERS:
            data = self.handle.data + width * other.handle.data.astype(np.uint64)
            return make_tensor(data, pointer, result_type(self, other, data, pointer))
        return slow(self, other, **keywords)

    return add


def _shift_right(slow: Operator, promote: Promotion) -> Operator:
    short = _elementwise(slow, np.right_shift, promote, "iu", compares=False, reflected=False)

    def rshift(self: Any, other: Any, **keywords: Any) -> Any:
        # Arithmetic for a signed left operand, logical for an unsigned one: only where the common type keeps that.
        if type(other) is tl.tensor and other.dtype.name != self.dtype.name:
            return slow(self, other, **keywords)
        return short(self, other, **keywords)

    return rshift


def _invert(slow: Operator) -> Operator:
    def invert(self: Any, **keywords: Any) -> Any:
        plain = PLAIN.get(self.dtype.name)
        if plain is None or plain.kind == "f" or self.handle.data.dtype != plain:
            return slow(self, **keywords)
        return make_tensor(np.invert(self.handle.data), self.dtype, self.type)

    return invert


def install(semantic: Any) -> None:
    """Put the short paths on tl.tensor, around the interpreter's methods that are there already."""
    tensor = tl.tensor
    tensor.__init__ = _init
    tl.block_type.with_element_ty = _with_element_ty
    promote = {division: Promotion(semantic, division=division) for division in (False, True)}
    for name, (op, division, kinds) in ARITHMETIC.items():
        for reflected in (False, True):
            method = f"__{'r' if reflected else ''}{name}__"
            slow = getattr(tensor, method)
            short = _elementwise(slow, op, promote[division], kinds, compares=False, reflected=reflected)
            setattr(tensor, method, _pointer_or(short, slow) if name == "add" else short)
    for name, op in COMPARISONS.items():
        slow = getattr(tensor, f"__{name}__")
        setattr(
            tensor,
            f"__{name}__",
            _elementwise(slow, op, promote[False], "iuf", compares=True, reflected=False),
        )
    tensor.__rshift__ = _shift_right(tensor.__rshift__, promote[False])
    tensor.__invert__ = _invert(tensor.__invert__)
