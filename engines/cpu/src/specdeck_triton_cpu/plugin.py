"""The entry point that vLLM calls in each of its processes before it builds an engine."""

from __future__ import annotations

import os

# Set to 0, the interpreter does everything its own slow way: for comparing the two.
SHORT_PATHS = "SPECDECK_TRITON_SHORT_PATHS"


def register() -> None:
    """Close the interpreter's gaps where kernels run in it; do nothing anywhere else."""
    from triton.backends import backends  # noqa: PLC0415 - Triton first: it imports this package's driver itself

    if not backends["cpu"].driver.is_active():
        return
    from specdeck_triton_cpu import fast, gaps  # noqa: PLC0415 - needs all of Triton

    gaps.close()
    if os.environ.get(SHORT_PATHS, "1") != "0":
        fast.install()
