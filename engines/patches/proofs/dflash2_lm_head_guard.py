"""Proves that candidates are computed for a head of any method, by that method."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from statements import function, read, run


class Quantized:
    """A quantized head's method: the logits of one position, of which token 2 is the best."""

    def apply(self, _head: Any, _states: Any, bias: None = None) -> list[float]:
        """Compute logits."""
        assert bias is None
        return [0.5, 1.0, 4.0, 2.0]


class Column(list[float]):
    """As much of a tensor as is used."""

    def to(self, _dtype: Any) -> Column:
        """As a tensor's."""
        return self

    def float(self) -> Column:
        """As a tensor's."""
        return self

    def __add__(self, other: Any) -> Column:
        return Column(value + other for value in self)

    def __mul__(self, other: Any) -> Column:
        return Column(value * other for value in self)


def top(logits: list[float], count: int) -> tuple[Column, Column]:
    """Return the best logits and their tokens."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])[:count]
    return Column(logits[token] for token in order), Column(order)


names: dict[str, Any] = {
    "UnquantizedEmbeddingMethod": type("UnquantizedEmbeddingMethod", (), {}),
    "torch": SimpleNamespace(int64="int64"),
    "_topk": top,
    "get_tensor_model_parallel_world_size": lambda: 1,
}
run([function(read("vllm/model_executor/models/qwen3_dflash2.py"), "compute_candidates")], names)
shard = SimpleNamespace(num_org_vocab_padding=0, org_vocab_start_index=0)
drafter = SimpleNamespace(
    lm_head=SimpleNamespace(quant_method=Quantized(), shard_indices=shard),
    model=SimpleNamespace(candidate_selector=SimpleNamespace(top_k=2)),
    output_multiplier=1.0,
    final_logit_softcapping=None,
)
ids, values = names["compute_candidates"](drafter, "hidden states")
if (list(ids), list(values)) != ([2, 3], [4.0, 2.0]):
    print(f"wrong candidates: {ids} {values}")
    sys.exit(1)
