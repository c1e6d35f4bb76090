"""The driver half of the backend: active only in interpreter mode and where no real driver is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from specdeck_triton_cpu.compiler import NOT_COMPILED

if TYPE_CHECKING:
    import torch

# What Triton's own knob accepts as true.
TRUE_WORDS = ("1", "true", "on", "yes", "y")


def interpreter_requested() -> bool:
    """Return whether TRITON_INTERPRET asks for the interpreter."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in TRUE_WORDS


def real_driver_active() -> bool:
    """Return whether another Triton backend finds hardware it can drive."""
    from triton.backends import backends  # noqa: PLC0415 - this package is being imported by that one

    return any(name != "cpu" and backend.driver.is_active() for name, backend in backends.items())


class InterpreterDriver(DriverBase):
    """Stands for the processor that the interpreter runs on."""

    @classmethod
    def is_active(cls) -> bool:
        """Return whether kernels are to run in the interpreter here."""
        return interpreter_requested() and not real_driver_active()

    def map_python_to_cpp_type(self, ty: str) -> NoReturn:
        """Refuse: only launchers of compiled kernels ask."""
        raise RuntimeError(NOT_COMPILED)

    def get_current_target(self) -> GPUTarget:
        """Return a target of one lane."""
        return GPUTarget("cpu", 0, 1)

    def get_active_torch_device(self) -> torch.device:
        """Return the device on which tensors lie."""
        import torch  # noqa: PLC0415 - Triton is imported by torch

        return torch.device("cpu")

    def get_benchmarker(self) -> NoReturn:
        """Refuse: a timing of the interpreter must never choose a kernel's configuration."""
        raise RuntimeError("the interpreter's timings say nothing about a kernel: autotuning is off")
