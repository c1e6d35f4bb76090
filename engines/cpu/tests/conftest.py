"""The tests run kernels in the interpreter, so they need TRITON_INTERPRET before Triton is imported."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
