"""The entry point that vLLM calls in each of its processes before it builds an engine."""

from __future__ import annotations


def register() -> None:
    """Close the interpreter's gaps where kernels run in it; do nothing anywhere else."""
    from specdeck_triton_cpu.driver import InterpreterDriver  # noqa: PLC0415 - a GPU machine loads no more than this

    if not InterpreterDriver.is_active():
        return
    from specdeck_triton_cpu import fast, gaps  # noqa: PLC0415 - needs all of Triton

    gaps.close()
    fast.install()
