"""Proves that a head_dtype is accepted for an unquantized LM head of either class, and refused for a quantized one."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from statements import function, read, run


class UnquantizedEmbeddingMethod:
    """Stands for vLLM's class of that name."""


class UnquantizedLinearMethod:
    """Stands for vLLM's class of that name."""


class Quantized:
    """Stands for any other method."""


def project(method: Any) -> str:
    """Project hidden states through a head with this method, in another type than the model's."""
    node = function(read("vllm/model_executor/layers/logits_processor.py"), "_apply_head")
    names: dict[str, Any] = {
        "UnquantizedEmbeddingMethod": UnquantizedEmbeddingMethod,
        "UnquantizedLinearMethod": UnquantizedLinearMethod,
        "torch": SimpleNamespace(float32="float32"),
        "current_platform": SimpleNamespace(is_cuda=lambda: False, is_rocm=lambda: False),
        "F": SimpleNamespace(linear=lambda states, weight, bias: f"{states} {weight} {bias}"),
    }
    run([node], names)
    cast = SimpleNamespace(dtype="bfloat16", to=lambda dtype: dtype, is_cuda=False)
    head = SimpleNamespace(quant_method=method, weight=cast)
    return str(names["_apply_head"](SimpleNamespace(head_dtype="float32"), head, cast, None))


for accepted in (UnquantizedEmbeddingMethod(), UnquantizedLinearMethod()):
    if project(accepted) != "float32 float32 None":
        sys.exit(1)
try:
    project(Quantized())
except ValueError:
    sys.exit(0)
print("a quantized head was accepted")
sys.exit(1)
