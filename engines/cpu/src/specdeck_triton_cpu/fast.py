"""Makes the interpreter fast enough to serve with, without changing what a kernel computes."""

from __future__ import annotations

from triton.runtime import interpreter

from specdeck_triton_cpu import fast_launch, fast_ops, fast_tensor

_installed = False


def install() -> None:
    """Install every short path. Calling it again changes nothing."""
    global _installed  # noqa: PLW0603 - patches a process, once
    if _installed:
        return
    _installed = True
    fast_launch.patch_language()
    fast_tensor.install(interpreter.interpreter_semantic)
    fast_ops.install(interpreter.interpreter_semantic, interpreter.interpreter_builder)
    fast_launch.install()
