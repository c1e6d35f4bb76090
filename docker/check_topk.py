"""Fails where the DFlash2 selector would not get FlashInfer's radix top-k. Needs no GPU.

Two things must hold: vLLM must take FlashInfer for usable (else it takes torch.topk, with one line in the log), and the
top-k kernel itself must be there: in FlashInfer's package of compiled kernels, or compiled here. vLLM's own test is
satisfied by flashinfer-cubin alone, which does not hold this kernel.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn


def refuse(what: str, fix: str) -> NoReturn:
    """End the build."""
    print(f"error: the DFlash2 selector would fall back to torch.topk: {what}\n  Fix: {fix}", file=sys.stderr)
    sys.exit(1)


def kernel(spec: Any) -> str:
    """Say where the kernel comes from, compiling it where it is not at hand.

    Args:
        spec: FlashInfer's description of the module (`flashinfer.jit.core.JitSpec`).
    """
    if getattr(spec, "is_aot", False):
        return "it comes compiled"
    try:
        spec.build()
    except TypeError:
        spec.build(verbose=False)  # FlashInfer before 0.7
    return "it was compiled here"


def main() -> int:
    """Check this image."""
    try:
        from vllm.utils.flashinfer import has_flashinfer  # noqa: PLC0415 - a missing vLLM is one of the answers
    except ImportError as error:
        refuse(str(error), "take vLLM 0.28.0 or later")
    if not has_flashinfer():
        refuse("vLLM finds no usable FlashInfer", "install flashinfer-jit-cache, or nvcc and ninja, in the base")
    architectures = os.environ.get("CUDA_ARCHS", "").strip()
    if architectures:
        os.environ["FLASHINFER_CUDA_ARCH_LIST"] = architectures
    try:
        from flashinfer.jit.topk import gen_topk_module  # noqa: PLC0415

        said = kernel(gen_topk_module())
    except Exception as error:  # noqa: BLE001 - whatever it is, the build must not go on
        refuse(
            f"its kernel is not there and cannot be compiled: {error}",
            "install flashinfer-jit-cache, or nvcc and ninja and name the architectures: --cuda-archs '8.6'",
        )
    print(f"FlashInfer's top-k: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
