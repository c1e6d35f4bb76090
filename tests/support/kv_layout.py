"""Asks vLLM's own KV cache code how it groups some layers. Run by the engine's Python: cases as JSON in, answers out.

A case: the layers as [kind, count, options], `packed`, `prefix_caching`, `in_flight`, `length`. An answer: bytes of one
block of the pool and the blocks of one request of `length` tokens.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from vllm.utils.math_utils import cdiv
from vllm.v1.core import kv_cache_utils as engine
from vllm.v1.kv_cache_interface import (
    CircularBufferSpec,
    FullAttentionSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

KINDS = {
    "full": FullAttentionSpec,
    "mla": MLAAttentionSpec,
    "sliding": SlidingWindowSpec,
    "ring": CircularBufferSpec,
    "state": MambaSpec,
}


def spec(kind: str, options: dict[str, Any], mode: str) -> Any:
    """Return a layer's spec."""
    options = dict(options)
    if kind == "state":
        page, content = options.pop("page"), options.pop("content")
        return MambaSpec(
            shapes=((content,),), dtypes=(torch.uint8,), page_size_padded=page, mamba_cache_mode=mode, **options
        )
    return KINDS[kind](dtype=getattr(torch, options.pop("dtype")), **options)


def answer(case: dict[str, Any]) -> dict[str, int]:
    """Group the layers of a case."""
    mode = "align" if case["prefix_caching"] else "none"
    layout = KVCacheLayout.BLNHC if case["packed"] else KVCacheLayout.LBNHC
    config = SimpleNamespace(
        cache_config=SimpleNamespace(get_resolved_kv_cache_layout=lambda: layout, mamba_cache_mode=mode),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
        model_config=SimpleNamespace(max_model_len=case["length"]),
        max_in_flight_tokens=case["in_flight"],
        speculative_config=None,
    )
    layers = {
        f"{kind}{number}.{index}": spec(kind, options, mode)
        for number, (kind, count, options) in enumerate(case["layers"])
        for index in range(count)
    }
    groups = engine.get_kv_cache_groups(config, layers)
    blocks = sum(
        cdiv(group.kv_cache_spec.max_memory_usage_bytes(config), group.kv_cache_spec.page_size_bytes)
        for group in groups
    )
    return {"block_bytes": engine._get_kv_cache_bytes_per_block(groups, layout), "per_request": blocks}


print("answers", json.dumps([answer(case) for case in json.load(sys.stdin)]))
