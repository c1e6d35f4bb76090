"""Launches kernels in the interpreter without redoing at each launch what a kernel's signature fixes.

Triton patches its language modules before each launch and each device function call, and restores them
after; in a process whose kernels all run in the interpreter, patching them once is the same.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import mangle_type

from specdeck_triton_cpu.fast_tensor import make_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

_POINTERS: dict[torch.dtype, Any] = {}


def _pointer_type(tensor: torch.Tensor) -> Any:
    found = _POINTERS.get(tensor.dtype)
    if found is None:
        found = _POINTERS[tensor.dtype] = tl.str_to_ty(mangle_type(tensor), None)
    return found


def _convert(value: Any) -> Any:
    """Return a kernel argument as the interpreter passes it: what it does not know goes through its own function."""
    kind = type(value)
    if kind is torch.Tensor or isinstance(value, torch.Tensor):
        data = np.array([value.data_ptr()], dtype=np.uint64)
        pointer = _pointer_type(value)
        return make_tensor(data, pointer, pointer)
    if kind is int and -(2**31) <= value < 2**31:
        return make_tensor(np.array([value], dtype=np.int32), tl.int32, tl.int32)
    return interpreter._implicit_cvt(value)  # noqa: SLF001 - there is no public name for it


def _on_host(value: Any) -> bool:
    """Return whether an argument needs no copy to the host's memory and back."""
    if isinstance(value, torch.Tensor):
        return value.device.type == "cpu"
    return value is None or isinstance(value, int | float | str | tl.dtype | tl.constexpr | torch.dtype)


class Launch:
    """One kernel with what its signature fixes."""

    def __init__(self, kernel: interpreter.InterpretedFunction) -> None:
        self.kernel = kernel
        self.body: Callable[..., Any] = kernel.rewrite()
        template = interpreter.GridExecutor(self.body, kernel.arg_names, (1,), kernel.pre_run_hooks)
        self.constexprs = frozenset(template.constexprs)
        specification = inspect.getfullargspec(self.body)
        self.names = tuple(specification.args)
        self.accepted = frozenset((*specification.args, *specification.kwonlyargs))
        self.defaults = dict(zip(self.names[::-1], (specification.defaults or ())[::-1], strict=False))
        self.defaults |= specification.kwonlydefaults or {}

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """Return every parameter's value. Raises TypeError, worded by Python, on a call that does not match."""
        bound = dict(self.defaults)
        bound.update(zip(self.names, args, strict=False))
        bound.update(keywords)
        positional = self.names[: len(args)]
        if len(bound) != len(self.accepted) or len(args) > len(self.names) or keywords.keys() & set(positional):
            return inspect.getcallargs(self.body, *args, **keywords)
        return bound

    def __call__(self, grid: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Run the kernel's programs one after another, in the interpreter's order."""
        keywords = {name: value for name, value in keywords.items() if name in self.accepted}
        if not (all(map(_on_host, args)) and all(map(_on_host, keywords.values()))):
            kernel = self.kernel
            interpreter.GridExecutor(self.body, kernel.arg_names, grid, kernel.pre_run_hooks)(*args, **keywords)
            return
        for hook in self.kernel.pre_run_hooks:
            hook(*args, **keywords)
        bound = self.bind(args, keywords)
        values = {name: value if name in self.constexprs else _convert(value) for name, value in bound.items()}
        extent = grid(values) if callable(grid) else grid
        if len(extent) > 3:
            raise AssertionError("grid must have at most 3 dimensions")
        nx, ny, nz = (*extent, *(1,) * (3 - len(extent)))
        builder, body = interpreter.interpreter_builder, self.body
        builder.set_grid_dim(nx, ny, nz)
        try:
            for x in range(nx):
                for y in range(ny):
                    for z in range(nz):
                        builder.grid_idx = (x, y, z)
                        body(**values)
        except Exception as error:
            if triton.knobs.compilation.front_end_debugging:
                raise
            raise InterpreterError(repr(error)) from error


def _run(self: Any, *args: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
    if warmup:
        return
    launch = self.__dict__.get("_launch")
    if launch is None:
        launch = self._launch = Launch(self)
    launch(grid, args, keywords)


def _call_device_function(self: Any, *args: Any, **keywords: Any) -> Any:
    body = self.__dict__.get("_body")
    if body is None:
        body = self._body = self.rewrite()
    try:
        return body(*args, **keywords)
    except Exception as error:
        raise InterpreterError(repr(error)) from error


def patch_language() -> None:
    """Put the interpreter's versions of the language into place for the whole process."""
    everywhere = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    interpreter._patch_lang(everywhere)  # noqa: SLF001 - what Triton calls before each launch


def install() -> None:
    """Replace how kernels are launched and device functions called."""
    interpreter.InterpretedFunction.run = _run
    interpreter.InterpretedFunction.__call__ = _call_device_function
