"""The compiler half of the backend: Triton requires one, and the interpreter never calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from triton.backends.compiler import BaseBackend, GPUTarget

if TYPE_CHECKING:
    from types import ModuleType

NOT_COMPILED = (
    "the Triton backend 'cpu' compiles nothing: it runs kernels in Triton's interpreter. "
    "Fix: set TRITON_INTERPRET=1 before Python starts"
)


class InterpreterBackend(BaseBackend):
    """Refuses to compile, and says what to set instead."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return whether `target` is the one this package's driver reports."""
        return target.backend == "cpu"

    def hash(self) -> str:
        """Return the cache key of the compiler, which has no versions."""
        return "specdeck-triton-cpu"

    def parse_options(self, options: dict[str, object]) -> NoReturn:
        """Refuse: reached only when a kernel is compiled."""
        raise RuntimeError(NOT_COMPILED)

    def add_stages(self, stages: dict[str, object], options: object, language: object) -> NoReturn:
        """Refuse: reached only when a kernel is compiled."""
        raise RuntimeError(NOT_COMPILED)

    def load_dialects(self, context: object) -> None:
        """Load nothing."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """Return no device-specific modules."""
        return {}
