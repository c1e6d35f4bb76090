"""GLM-5.3's cache: the bytes of a token are those a served model moved, and missing inputs are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specdeck.checkpoint import CheckpointFacts, load_facts, published_facts
from specdeck.paths import repo_root
from specdeck.planner.layers import CacheOptions, CacheShape
from specdeck.planner.plan import plan_arm
from specdeck.planner.shape import cache_shape
from specdeck.recipe import load_recipe

ROOT = repo_root()
# vllm-project/recipes#893: tokens of a prompt, and bytes that 8 ranks moved to another tier. It moves 4 blocks at once.
MOVED = ((138_615, 59_763_793_920), (44_498, 19_111_157_760))
RANKS, CHUNK = 8, 4 * 64


def facts() -> CheckpointFacts:
    found = published_facts("zai-org/GLM-5.3", ROOT)
    assert found is not None
    return found


def shape(config: dict[str, Any] | None = None, **options: Any) -> CacheShape | tuple[str, ...]:
    target = facts() if config is None else replace(facts(), config={**facts().config, **config})
    return cache_shape(target, None, CacheOptions(**options))


def planned(name: str, arm: str) -> Any:
    recipe = load_recipe(name)
    return plan_arm(recipe, arm, load_facts(recipe.target, ROOT), None)


@pytest.mark.parametrize(("prompt", "moved"), MOVED)
def test_a_token_takes_the_bytes_that_a_served_model_moved(prompt: int, moved: int) -> None:
    found = shape(kv_dtype="fp8", tensor_parallel=RANKS)
    assert isinstance(found, CacheShape)
    whole = prompt // CHUNK * CHUNK
    assert RANKS * whole * sum(found.token_bytes.values()) == moved
    assert found.grouping.block_bytes * (whole // found.block_tokens) * RANKS == moved


def test_21_of_78_layers_have_an_indexer_and_an_mtp_layer_has_its_own() -> None:
    none, mtp = shape(), shape(method="mtp", draft_tokens=3)
    assert isinstance(none, CacheShape)
    assert isinstance(mtp, CacheShape)
    assert none.token_bytes == {"MLA": 78 * 1152, "indexer keys": 21 * 132}
    assert mtp.token_bytes == {"MLA": 79 * 1152, "indexer keys": 22 * 132}


def test_a_pattern_of_shared_layers_is_read_as_vllm_reads_it() -> None:
    found = shape({"index_topk_pattern": "FSSS" * 19 + "FS"})
    assert isinstance(found, CacheShape)
    assert found.token_bytes["indexer keys"] == 20 * 132


def test_an_unknown_schedule_of_indexers_counts_all_and_is_named() -> None:
    config = {key: value for key, value in facts().config.items() if not key.startswith("index_topk_freq")}
    found = cache_shape(replace(facts(), config=config), None, CacheOptions())
    assert isinstance(found, CacheShape)
    assert found.token_bytes["indexer keys"] == 78 * 132
    assert "index_topk_freq" in found.missing[0]
    whole = cache_shape(replace(facts(), config=config, partial=False), None, CacheOptions())
    assert isinstance(whole, CacheShape)
    assert whole.missing == (), "vLLM's default holds for a config that is all there"


def test_missing_inputs_are_named() -> None:
    assert shape({"kv_lora_rank": None}) == ("target config: kv_lora_rank",)
    assert "no drafter" in shape(method="dflash", draft_tokens=7)[0]  # type: ignore[index]
    assert shape(kv_dtype="int3") == ("serve.kv_cache_dtype: bytes of int3",)


def test_the_block_is_a_multiple_of_the_indexers() -> None:
    found = shape(block_size=100)
    assert isinstance(found, CacheShape)
    assert (found.block_tokens, found.automatic_block) == (128, 64)


def test_cards_of_capability_12_keep_packed_latents_without_being_asked_to() -> None:
    plan = planned("glm-5.3-nvfp4-4xgb10", "none")
    assert plan.token_bytes["MLA"] == 78 * 656
    assert any("fp8_ds_mla" in line for line in plan.assumed)
    assert planned("glm-5.3-nvfp4-8xh100", "none").token_bytes["MLA"] == 78 * 1152


@pytest.mark.parametrize("name", ["glm-5.3-nvfp4-8xh100", "glm-5.3-awq-8xh100", "glm-5.3-nvfp4-4xgb10"])
def test_an_arm_that_is_offered_has_room_for_one_request(name: str) -> None:
    for arm, spec in load_recipe(name).arms.items():
        if spec.unavailable is None:
            assert planned(name, arm).fits in ("yes", "probably"), arm
