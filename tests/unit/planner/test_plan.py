"""Plans of whole recipes: what fits, what is unknown, and that planning stays cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from support.memory import PEAK_MIB

from specdeck.checkpoint import load_facts
from specdeck.paths import repo_root
from specdeck.planner.plan import ArmPlan, plan_arm
from specdeck.planner.shape import CacheOptions, cache_shape
from specdeck.planner.text import render
from specdeck.recipe import list_recipes, load_recipe

ROOT = repo_root()
MEASURE = f"""
import sys
from specdeck.cli.main import app
try:
    app(["plan", "qwen3.8-27b-fp8-2x3090", "--json"])
except SystemExit:
    pass
print({PEAK_MIB}, *{{"torch", "vllm", "numpy", "aiohttp", "matplotlib", "pandas"}} & set(sys.modules), file=sys.stderr)
"""


def planned(name: str, arm: str, *, context: int | None = None, kv_bytes: int | None = None) -> ArmPlan:
    recipe = load_recipe(name)
    drafter = load_facts(recipe.drafter, ROOT) if recipe.drafter else None
    return plan_arm(recipe, arm, load_facts(recipe.target, ROOT), drafter, context=context, kv_bytes=kv_bytes)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_of_the_checkout_can_be_planned(name: str) -> None:
    for arm in load_recipe(name).arms:
        plan = planned(name, arm)
        assert plan.pools is not None or plan.unknown
        assert json.dumps(plan.as_json())
        assert f"fits: {plan.fits}" in render(plan)


def test_with_a_fixed_cache_the_plan_is_exact_and_has_no_range() -> None:
    plan = planned("tiny-next-cpu", "none", kv_bytes=2**30)
    assert plan.block_tokens == 128
    assert plan.pools is not None
    assert len(set(plan.pools)) == 1
    # One attention page of the pair: 128 tokens × 2 × 2 heads × 64 numbers × 2 bytes; one layer a group.
    assert plan.pools[1].blocks == 2**30 // 65_536


def test_a_context_that_does_not_fit_says_what_would_change_it() -> None:
    plan = planned("qwen3.8-27b-fp8-2x3090", "dflash2", context=262_144)
    assert plan.fits == "no"
    assert any("kv_cache_dtype" in change or "tensor_parallel_size" in change for change in plan.changes)


def test_a_change_that_leaves_the_verdict_as_it_is_is_not_offered() -> None:
    plan = planned("qwen3.8-27b-fp8-2x3090", "dflash2")
    # Others served this arm at 64K; the range of the estimate is too wide to promise it.
    assert plan.fits == "probably"
    assert plan.changes
    assert not any("probably" in change for change in plan.changes)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("glm-5.3-flash-nvfp4-4xrtxpro6000", ("bytes of the weights of RedHatAI/GLM-5.3-Flash-NVFP4",)),
        ("qwen3.8-flash-next-fp8-4xh100", ("ple_layer_ids", "drafter config", "bytes of the drafter's weights")),
        ("qwen3.8-27b-int4-inc-2x3090", ("bytes of the weights of z-lab/Qwen3.8-27B",)),
    ],
)
def test_inputs_that_nobody_published_make_a_range_and_are_named(name: str, inputs: tuple[str, ...]) -> None:
    plan = planned(name, "dflash2")
    assert plan.pools is not None
    assert plan.pools[0].tokens < plan.pools[1].tokens < plan.pools[2].tokens
    assert all(any(word in text for text in plan.unknown) for word in inputs)
    assert any("drafter" in part for part in plan.token_bytes)


def test_the_table_of_flash_next_stays_in_host_memory_unless_the_recipe_says_otherwise() -> None:
    recipe = load_recipe("qwen3.8-flash-next-fp8-4xh100")
    facts = load_facts(recipe.target, ROOT)
    kept = recipe.model_copy(
        update={"serve": recipe.serve.model_copy(update={"extra": {"engram_config": {"cpu_offload": False}}})}
    )
    host, gpu = (plan_arm(found, "none", facts, None).memory[0].expected for found in (recipe, kept))
    assert gpu - host == pytest.approx(51_200_000_000 / 4 / 2**30, rel=0.05)


def test_a_glm_checkpoint_with_its_own_key_names_is_read() -> None:
    flat = load_facts(load_recipe("glm-5.3-flash-fp8-4xgb10").target, ROOT)
    assert flat is not None
    nested = {key: value for key, value in flat.config.items() if not key.startswith("linear_")}
    nested |= {"linear_attn_config": {"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4}}
    nested.pop("full_attention_interval")
    shapes = [cache_shape(replace(flat, config=config), None, CacheOptions()) for config in (flat.config, nested)]
    assert shapes[0] == shapes[1]
    bare = cache_shape(replace(flat, config=nested | {"linear_attn_config": {}}), None, CacheOptions())
    assert bare == tuple(f"target config: linear_attn_config.{key}" for key in (
        "num_heads", "head_dim", "short_conv_kernel_size"
    ))  # fmt: skip


def test_weights_that_leave_nothing_do_not_fit_whatever_the_cache_would_take() -> None:
    plan = planned("glm-5.3-fp8-4xrtxpro6000", "dflash2")
    assert plan.pools is None
    assert plan.unknown
    assert plan.fits == "no"
    assert planned("glm-5.3-nvfp4-4xgb10", "dflash2").fits == "not known"


def test_an_unknown_target_is_named() -> None:
    recipe = load_recipe("qwen3.8-27b-fp8-2x3090")
    plan = plan_arm(recipe, "none", None, None)
    assert plan.fits == "not known"
    assert "Qwen/Qwen3.8-27B-FP8" in plan.unknown[0]


def test_the_drafter_costs_more_than_its_own_cache() -> None:
    alone, drafting = (planned("qwen3.8-27b-fp8-2x3090", arm, kv_bytes=10 * 2**30) for arm in ("none", "dflash2"))
    assert alone.pools is not None
    assert drafting.pools is not None
    assert drafting.pools[1].tokens < 0.75 * alone.pools[1].tokens


def test_planning_needs_nothing_heavy_and_under_60_mib() -> None:
    """The seconds it takes are measured by `make perf-report`, where nothing else runs."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, timeout=60)
    peak, *heavy = done.stderr.split()
    assert not heavy
    assert float(peak) < 60
