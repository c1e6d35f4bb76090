"""Overlays: what they change, what they refuse, and that they write nowhere else and copy nothing."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.overlay.build import build, overlays_folder
from specdeck.overlay.recipes import folders_for
from specdeck.overlay.spec import apply, load_overlay, needless
from specdeck.paths import repo_root
from specdeck.recipe import load_recipe
from specdeck.recipe.models import Checkpoint, Overlays

if TYPE_CHECKING:
    from pathlib import Path

POSITIONS = load_overlay("positions-512k", repo_root())
YARN = load_overlay("yarn-512k", repo_root())
CONFIG = {
    "max_position_embeddings": 262_144,
    "hidden_size": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7},
}


def source(folder: Path, config: Any = CONFIG, *, weights: bool = True) -> Checkpoint:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if weights:
        header = b'{"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    return Checkpoint(path=str(folder))


def snapshot(cache: Path, revision: str, *, weights: bool = True) -> None:
    store = cache / "models--o--m"
    source(store / "snapshots" / revision, weights=weights)
    (store / "refs").mkdir(exist_ok=True)
    (store / "refs" / "main").write_text(revision)


def test_the_position_table_changes_and_nothing_else(tmp_path: Path) -> None:
    done = build(POSITIONS, source(tmp_path / "a"), "drafter", tmp_path)
    assert json.loads((done.folder / "config.json").read_text()) == CONFIG | {"max_position_embeddings": 524_288}
    assert (done.folder / "model.safetensors").is_symlink()
    assert done.changes == ("max_position_embeddings: 262144 → 524288",)
    assert "dflash" not in done.folder.name


def test_yarn_is_written_into_the_language_model_s_config() -> None:
    changed, _ = apply(YARN, {"text_config": CONFIG, "vision": 1}, "config.json")
    rope = changed["text_config"]["rope_parameters"]
    assert (rope["rope_type"], rope["factor"], rope["original_max_position_embeddings"]) == ("yarn", 2.0, 262_144)
    assert rope["rope_theta"] == 1e7
    assert changed["vision"] == 1


def test_a_second_build_changes_nothing_and_a_moved_revision_builds_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(repo="o/m")
    snapshot(tmp_path, "a" * 40)
    first = build(POSITIONS, checkpoint, "drafter", tmp_path, cache=tmp_path)
    assert first.built
    assert not build(POSITIONS, checkpoint, "drafter", tmp_path, cache=tmp_path).built
    snapshot(tmp_path, "b" * 40)
    moved = build(POSITIONS, checkpoint, "drafter", tmp_path, cache=tmp_path)
    assert moved.built
    assert "b" * 40 in str((moved.folder / "model.safetensors").resolve())
    assert list(overlays_folder(tmp_path).iterdir()) == [moved.folder]


def test_a_source_without_weights_is_refused_also_after_main_moved(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="no weights"):
        build(POSITIONS, source(tmp_path / "a", weights=False), "drafter", tmp_path)
    snapshot(tmp_path, "a" * 40)
    snapshot(tmp_path, "b" * 40, weights=False)
    with pytest.raises(SpecdeckError, match="no weights") as caught:
        build(POSITIONS, Checkpoint(repo="o/m"), "drafter", tmp_path, cache=tmp_path)
    assert "refs/main" in str(caught.value.fix)


def test_a_config_that_already_differs_is_refused(tmp_path: Path) -> None:
    checkpoint = source(tmp_path / "a", CONFIG | {"max_position_embeddings": 131_072})
    with pytest.raises(SpecdeckError, match="already differs") as caught:
        build(POSITIONS, checkpoint, "drafter", tmp_path)
    assert "config.json: max_position_embeddings" in str(caught.value.where)


def test_later_engines_need_no_position_table_for_plain_rope() -> None:
    assert not needless(POSITIONS, CONFIG, "0.32.0")
    assert needless(POSITIONS, CONFIG, "0.33.0")
    assert not needless(POSITIONS, CONFIG | {"rope_parameters": {"rope_type": "longrope"}}, "0.33.0")
    assert not needless(YARN, CONFIG, "0.33.0")


def test_mutated_configs_give_an_overlay_or_an_error_and_write_nowhere_else(tmp_path: Path) -> None:
    chance = random.Random(3)
    good = json.dumps({"text_config": CONFIG})
    places = []
    for _ in range(1000):
        text = list(good)
        for _ in range(chance.randint(1, 3)):
            text[chance.randrange(len(text))] = chance.choice(['"', "{", "[", "-", "9" * 20, "null", "../", "\x00", ""])
        checkpoint = source(tmp_path / "a", "".join(text))
        try:
            build(POSITIONS, checkpoint, "drafter", tmp_path)
        except SpecdeckError as error:
            places.append(str(error.where))
    assert len(places) > 500
    assert all(str(tmp_path / "a") in place for place in places)
    assert {path.name for path in tmp_path.iterdir()} <= {"a", ".cache"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"config.json", "model.safetensors"}


def test_a_recipe_s_overlays_are_built_for_the_arms_that_use_them(tmp_path: Path) -> None:
    base = load_recipe("tiny-next-cpu")
    recipe = base.model_copy(update={"drafter": source(tmp_path / "a"), "overlays": Overlays(drafter="positions-512k")})
    said: list[str] = []
    shutil.copytree(repo_root() / "overlays", tmp_path / "overlays")
    assert folders_for(recipe, "none", tmp_path, said.append) == {}
    folders = folders_for(recipe, "dflash2", tmp_path, said.append)
    assert (folders["drafter"] / "config.json").is_file()
    assert any("524288" in line for line in said)


def test_an_engine_that_needs_no_overlay_gets_the_checkpoint_itself(tmp_path: Path) -> None:
    base = load_recipe("tiny-next-cpu")
    recipe = base.model_copy(
        update={
            "drafter": source(tmp_path / "a"),
            "overlays": Overlays(drafter="positions-512k"),
            "engine": base.engine.model_copy(update={"vllm": ">=0.33,<0.34"}),
        }
    )
    shutil.copytree(repo_root() / "overlays", tmp_path / "overlays")
    said: list[str] = []
    assert folders_for(recipe, "dflash2", tmp_path, said.append) == {"drafter": tmp_path / "a"}
    assert "not needed" in said[0]
    assert not overlays_folder(tmp_path).exists()
