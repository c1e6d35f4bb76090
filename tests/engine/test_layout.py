"""The planner's layout of every family against vLLM's own grouping code, for shapes that no CPU could serve."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specdeck.checkpoint import CheckpointFacts, published_facts
from specdeck.paths import repo_root
from specdeck.planner.shape import ELEMENT_BYTES, CacheOptions, CacheShape, cache_shape

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repo_root()
LENGTH = 262_144
DFLASH = {"method": "dflash", "draft_tokens": 7}
MTP = {"method": "mtp", "draft_tokens": 3}


@dataclass(frozen=True)
class Case:
    """A published target with options, and the layers as vLLM's model code would declare them."""

    target: str
    drafter: str | None
    options: CacheOptions

    @property
    def facts(self) -> tuple[CheckpointFacts, CheckpointFacts | None]:
        target = published_facts(self.target, ROOT)
        assert target is not None
        return target, published_facts(self.drafter, ROOT) if self.drafter and self.options.method == "dflash" else None

    @property
    def shape(self) -> CacheShape:
        found = cache_shape(*self.facts, self.options)
        assert isinstance(found, CacheShape)
        return found

    def layers(self) -> list[tuple[str, int, dict[str, Any]]]:
        target, drafter = self.facts
        text, ranks, n = target.text, self.options.tensor_parallel, self.options.draft_tokens
        block = self.shape.block_tokens
        dtype = "bfloat16" if self.options.kv_dtype == "bfloat16" else "uint8"
        if text["model_type"] == "glm_moe_dsa":
            return self.sparse_layers(dtype)
        kinds = target.layer_types
        assert kinds
        states = kinds.count("linear_attention")
        attention = len(kinds) - states + (self.options.method == "mtp")
        token = self.token(text, ranks)
        common = {"block_size": block, "page": block * token, "num_speculative_blocks": n}
        found: list[tuple[str, int, dict[str, Any]]] = []
        if text["model_type"].startswith("qwen3_5"):
            heads = {"num_kv_heads": 4 // ranks, "head_size": 256}
            found += [("full", attention, {"block_size": block, "dtype": dtype, **heads})]
            found += [("state", states, {**common, "content": block * token})]
        elif text["model_type"].startswith("qwen4_exp"):
            heads = {"num_kv_heads": 2 // ranks, "head_size": 256}
            found += [("full", attention, {"block_size": block, "dtype": dtype, **heads})]
            side = {"block_size": block, "dtype": "bfloat16", "num_kv_heads": 1, "head_size": 128}
            found += [("mla", attention, {**side, "tokens_per_state": 4})]
            capacity = 4 * -(-(4 + n) // 4)
            found += [("ring", attention, {**side, "block_size": capacity, "head_size_v": 0})]
            found += [("state", states, {**common, "content": block * token})]
            found += [("state", 1, {**common, "content": 1024, "tp_replicated": True})]
        else:
            mla = {"block_size": block, "num_kv_heads": 1}
            found += [("mla", attention, {**mla, "dtype": dtype, "head_size": 512})]
            found += [("mla", attention, {**mla, "dtype": "uint8", "head_size": 132, "tokens_per_state": 4})]
            pools = -(-(4 + n) // 4)
            ring = {"block_size": 4 * 2 ** (pools - 1).bit_length(), "num_kv_heads": 2, "head_size": 128}
            found += [("ring", attention, {**ring, "dtype": "bfloat16", "head_size_v": 0, "dcp_sharded": False})]
            found += [("state", states, {**common, "content": block * token, "num_prefill_checkpoint_blocks": 1})]
        if drafter:
            window = {"block_size": block, "num_kv_heads": 8 // ranks, "head_size": 128, "sliding_window": 2048}
            found += [("sliding", 5, {**window, "dtype": dtype})]
        return found

    def sparse_layers(self, dtype: str) -> list[tuple[str, int, dict[str, Any]]]:
        """GLM-5.3: 78 latents and 21 indexers, and one more of each with MTP; FP8 is packed into 656 bytes."""
        mtp = self.options.method == "mtp"
        common = {"block_size": self.shape.block_tokens, "num_kv_heads": 1}
        latent = {**common, "dtype": dtype, "head_size": 576}
        if dtype == "uint8":
            latent |= {"state_content_bytes": 656, "cache_dtype_str": "fp8_ds_mla"}
        return [("mla", 78 + mtp, latent), ("mla", 21 + mtp, {**common, "dtype": "uint8", "head_size": 132})]

    def token(self, text: Any, ranks: int) -> int:
        element = ELEMENT_BYTES[self.options.kv_dtype]
        if "kv_lora_rank" in text:
            return 512 * element
        return 2 * max(1, int(text["num_key_value_heads"]) // ranks) * 256 * element


def cases() -> list[Case]:
    methods: tuple[dict[str, Any], ...] = ({}, MTP, DFLASH, {**DFLASH, "draft_tokens": 5})
    targets = [
        ("Qwen/Qwen3.8-27B-FP8", "z-lab/Qwen3.8-27B-DFlash2", (1, 2)),
        ("Qwen/Qwen3.8-Flash-Next-FP8", "z-lab/Qwen3.8-27B-DFlash2", (1, 2)),
        ("zai-org/GLM-5.3-Flash", "incoai/GLM-5.3-Flash-DFlash2", (2, 4, 8)),
    ]
    return [
        Case(target, drafter, CacheOptions(tensor_parallel=ranks, kv_dtype=dtype, prefix_caching=caching, **method))
        for target, drafter, degrees in targets
        for ranks in degrees
        for dtype in ("bfloat16", "fp8")
        for caching in (True, False)
        for method in methods
    ] + [
        Case("zai-org/GLM-5.3", None, CacheOptions(tensor_parallel=8, kv_dtype=dtype, prefix_caching=caching, **method))
        for dtype in ("bfloat16", "fp8")
        for caching in (True, False)
        for method in methods[:2]
    ]  # fmt: skip


def test_blocks_and_their_bytes_are_those_of_vllms_own_code(python: Path) -> None:
    asked = cases()
    text = json.dumps(
        [
            {
                "layers": case.layers(),
                "packed": case.target not in ("Qwen/Qwen3.8-27B-FP8", "zai-org/GLM-5.3"),
                "prefix_caching": case.options.prefix_caching,
                "in_flight": case.options.concurrent_batches * case.options.batched_tokens,
                "length": LENGTH,
            }
            for case in asked
        ]
    )
    done = subprocess.run(
        [str(python), str(ROOT / "tests" / "support" / "kv_layout.py")], input=text, capture_output=True, text=True,
        timeout=300, check=False, env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.partition("answers ")[2])
    assert len(answers) == len(asked) > 50
    for case, answer in zip(asked, answers, strict=True):
        planned = case.shape
        got = {"block_bytes": planned.grouping.block_bytes, "per_request": planned.per_request(case.options, LENGTH)}
        assert got == answer, case


def test_the_probe_can_tell_a_wrong_layout() -> None:
    case = cases()[0]
    other = replace(case, options=replace(case.options, draft_tokens=9, method="dflash"))
    assert other.shape.per_request(other.options, LENGTH) != case.shape.per_request(case.options, LENGTH)
