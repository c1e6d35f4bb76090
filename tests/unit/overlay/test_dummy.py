"""Folders of shapes without weights: from a checkpoint on this machine, and from published facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.overlay.dummy import SPECIAL, build_dummy, dummy_folders
from specdeck.paths import repo_root
from specdeck.recipe import load_recipe
from specdeck.recipe.models import Checkpoint
from specdeck.run.options import resolve

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repo_root()
SHIPPED = ("models", "overlays")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with the shipped models, whose cache is the test's own."""
    for name in SHIPPED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_a_local_checkpoint_gives_its_config_and_tokenizer_and_no_weights(root: Path) -> None:
    recipe = load_recipe("tiny-next-cpu")
    folders = dummy_folders(recipe, "dflash2", root)
    assert set(folders) == {"target", "drafter"}
    names = {path.name for path in folders["target"].iterdir()}
    assert {"config.json", "tokenizer.json", "tokenizer_config.json"} <= names
    assert not [name for name in names if name.endswith(".safetensors")]
    assert json.loads((folders["target"] / "config.json").read_text()) == json.loads(
        (ROOT / "models/tiny-next/target/config.json").read_text()
    )
    assert all("dflash" not in str(folder.relative_to(root)) for folder in folders.values())
    assert set(dummy_folders(recipe, "mtp", root)) == {"target"}


def test_a_published_shape_gets_a_config_and_a_tokenizer_of_its_vocabulary(root: Path) -> None:
    folders = dummy_folders(load_recipe("qwen3.8-27b-fp8-1xh200"), "dflash2", root)
    config = json.loads((folders["target"] / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForCausalLM"]
    assert "text_config" not in config
    assert config["layer_types"].count("full_attention") == 16
    assert config["layer_types"][3] == "full_attention"
    kept = config["quantization_config"]["modules_to_not_convert"]
    assert "model.layers.63.linear_attn.conv1d" in kept
    assert "mtp.fc" in kept
    assert not [name for name in kept if "*" in name]
    tokenizer = json.loads((folders["target"] / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))
    assert [vocabulary[word] for word in SPECIAL] == [0, 1, 2]
    assert config["eos_token_id"] == vocabulary["<|im_end|>"]
    drafter = json.loads((folders["drafter"] / "config.json").read_text())
    assert drafter["is_causal"] is False
    assert max(drafter["dflash_config"]["target_layer_ids"]) < config["num_hidden_layers"]


def test_a_folder_that_is_there_is_kept_and_a_damaged_one_made_again(root: Path) -> None:
    checkpoint = load_recipe("qwen3.8-27b-fp8-1xh200").target
    folder = build_dummy(checkpoint, "target", root)
    before = (folder / "config.json").stat().st_mtime_ns
    assert build_dummy(checkpoint, "target", root) == folder
    assert (folder / "config.json").stat().st_mtime_ns == before
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to(root / "gone")
    assert build_dummy(checkpoint, "target", root) == folder
    assert (folder / "tokenizer.json").is_file()
    assert not (folder / "tokenizer.json").is_symlink()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_downloaded_config_counts_before_published_facts(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    commit = "0" * 40
    snapshot = cache / "models--Qwen--Qwen3.8-27B-FP8" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"architectures": ["Own"], "vocab_size": 300}')
    refs = snapshot.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text(commit)
    folder = build_dummy(Checkpoint(repo="Qwen/Qwen3.8-27B-FP8"), "target", root, cache=cache)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["Own"]
    assert len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]) == 300


def test_an_unknown_repository_is_told_what_to_download(root: Path) -> None:
    with pytest.raises(SpecdeckError, match="too little is known") as refused:
        build_dummy(Checkpoint(repo="nobody/nothing"), "target", root)
    assert "hf download nobody/nothing" in str(refused.value)


def test_dummy_weights_need_an_acceptance_and_leave_out_what_reads_the_tokenizer() -> None:
    with pytest.raises(SpecdeckError, match="accept nothing"):
        resolve(ROOT, recipe_name="qwen3.8-27b-fp8-1xh200", plan_name="smoke", dummy_weights=True)
    with pytest.raises(SpecdeckError, match="CPU build cannot serve a DFlash drafter"):
        resolve(ROOT, recipe_name="tiny-next-cpu", plan_name="smoke", synthetic=["3"], dummy_weights=True)
    options = resolve(
        ROOT, recipe_name="qwen3.8-27b-fp8-1xh200", plan_name="smoke", synthetic=["3"], dummy_weights=True
    )
    assert options.recipe is not None
    assert options.dummy_weights
    assert options.recipe.serve.extra["load_format"] == "dummy"
    assert options.recipe.serve.reasoning_parser is None
    assert options.recipe.serve.tool_call_parser is None
