"""Thousands of damaged configs, weight files and recipes: a plan, or an error with its file, and never a traceback."""

from __future__ import annotations

import json
import tempfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.checkout import RECIPE

from specdeck.checkpoint import CheckpointFacts, load_facts, published_facts
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.planner.plan import plan_arm
from specdeck.planner.text import render
from specdeck.recipe import Recipe, load_recipe
from specdeck.recipe.models import Checkpoint

ROOT = repo_root()
EXAMPLES = settings(
    max_examples=800, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
FILES = settings(EXAMPLES, max_examples=600)
TARGETS = ("Qwen/Qwen3.8-27B-FP8", "Qwen/Qwen3.8-Flash-Next-FP8", "zai-org/GLM-5.3-Flash")
DRAFTERS = ("z-lab/Qwen3.8-27B-DFlash2", "incoai/GLM-5.3-Flash-DFlash2")
HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(2**30, 2**40), st.integers(-3, 5),
    st.floats(), st.text(max_size=8),
    st.sampled_from(["$(id)", "a\nb", "\x00", "float32", "linear_attention", "A" * 3000]),
    st.lists(st.sampled_from([1, "linear_attention", None, [2]]), max_size=70),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        here = waiting.pop()
        for key in list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else []:
            found.append((here, key))
            waiting.append(here[key])
    return found


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """A copy with one to three places changed or removed."""
    copy = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 3))):
        known = places(copy)
        if not known:
            break
        here, key = known[draw(st.integers(0, len(known) - 1))]
        if draw(st.booleans()):
            here[key] = deepcopy(draw(HOSTILE))
        else:
            del here[key]
    return copy


def facts(repo: str) -> CheckpointFacts:
    found = published_facts(repo, ROOT)
    assert found is not None
    return found


def said(error: SpecdeckError, file: str) -> None:
    assert error.fix
    assert file in str(error.where), error.where


def planned(recipe: Recipe, target: CheckpointFacts | None, drafter: CheckpointFacts | None, file: str) -> bool:
    """Plan every arm; an error must name the file. Returns whether there was a plan."""
    for arm in recipe.arms:
        try:
            plan = plan_arm(recipe, arm, target, drafter)
        except SpecdeckError as error:
            said(error, file)
            return False
        assert f"fits: {plan.fits}" in render(plan)
        json.dumps(plan.as_json(), allow_nan=False)
        for pool in plan.pools or ():
            assert pool.blocks >= 0
            assert pool.requests >= 0
    return True


@EXAMPLES
@given(st.data())
def test_damaged_configs_of_every_family(data: st.DataObject) -> None:
    recipe = load_recipe("qwen3.8-27b-fp8-2x3090")
    target = facts(data.draw(st.sampled_from(TARGETS)))
    drafter = facts(data.draw(st.sampled_from(DRAFTERS)))
    if data.draw(st.booleans()):
        target = replace(target, config=data.draw(damaged(dict(target.config))), shown="somewhere/config.json")
        drafter = replace(drafter, shown="somewhere/config.json")
    else:
        drafter = replace(drafter, config=data.draw(damaged(dict(drafter.config))), shown="somewhere/config.json")
    planned(recipe, target, drafter, "somewhere/config.json")


def header(tensors: dict[str, Any]) -> bytes:
    raw = json.dumps(tensors).encode()
    return len(raw).to_bytes(8, "little") + raw


TENSORS = {
    "__metadata__": {"format": "pt"},
    "model.layers.0.mlp.weight": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]},
    "mtp.fc.weight": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [16, 20]},
    "model.visual.patch.weight": {"dtype": "F32", "shape": [3], "data_offsets": [20, 32]},
}


@FILES
@given(st.data())
def test_damaged_weight_files_and_configs_on_disk(data: st.DataObject) -> None:
    config = dict(facts(TARGETS[0]).config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.mkdir()
        raw = bytearray(header(data.draw(damaged(TENSORS)) if data.draw(st.booleans()) else TENSORS) + bytes(32))
        if data.draw(st.booleans()):
            for _ in range(data.draw(st.integers(1, 4))):
                raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
            del raw[data.draw(st.integers(0, len(raw))) :]
        (path / "model.safetensors").write_bytes(bytes(raw))
        text = json.dumps(data.draw(damaged(config)) if data.draw(st.booleans()) else config)
        (path / "config.json").write_text(text, encoding="utf-8")
        try:
            found = load_facts(Checkpoint(path=str(path)), ROOT)
        except SpecdeckError as error:
            said(error, folder)
            return
        planned(load_recipe("qwen3.8-27b-fp8-2x3090"), found, facts(DRAFTERS[0]), folder)
        assert sorted(file.name for file in Path(folder).rglob("*")) == ["config.json", "model", "model.safetensors"]


@FILES
@given(st.data())
def test_damaged_recipes_that_load_can_be_planned(data: st.DataObject) -> None:
    base = yaml.safe_load(RECIPE)
    base["hardware"] = {"device": "cuda", "class": "h100-80g", "gpus": 2, "vram_gib": 80}
    base["engine"].pop("environment")
    base["serve"] |= {"tensor_parallel_size": 2, "kv_cache_dtype": "fp8", "max_num_seqs": 4, "block_size": 32}
    base["serve"]["extra"] = {"engram_config": {"cpu_offload": False}, "async_scheduling": False}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.yml"
        path.write_text(yaml.safe_dump(data.draw(damaged(base)), allow_unicode=True), encoding="utf-8")
        try:
            recipe = load_recipe(str(path))
        except SpecdeckError as error:
            said(error, "r.yml")
            return
        planned(recipe, facts(data.draw(st.sampled_from(TARGETS))), facts(DRAFTERS[0]), "")
