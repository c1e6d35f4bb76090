"""Checkpoints on disk: local folders, shards with an index, and snapshots in the Hugging Face cache."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.checkpoint import load_facts
from specdeck.checkpoint.folder import check_hashes, hub_cache, locate, read_tensors
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe.models import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

REVISION = "a" * 40


def shard(path: Path, *names: str) -> None:
    header: dict[str, Any] = {
        name: {"dtype": "BF16", "shape": [2], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)
    }
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(4 * len(names)))


def sharded(folder: Path, weight_map: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_the_trained_pair_is_read_without_loading_it() -> None:
    facts = load_facts(Checkpoint(path="models/tiny-next/target"), repo_root())
    assert facts is not None
    assert facts.family == "qwen3_next"
    assert facts.layer_types == ("linear_attention",) * 3 + ("full_attention",)
    assert facts.weight_bytes is not None
    assert 0 < facts.part_bytes["mtp"] < facts.weight_bytes


def test_codebooks_of_a_drafter_are_told_apart() -> None:
    facts = load_facts(Checkpoint(path="models/tiny-next/drafter"), repo_root())
    assert facts is not None
    assert facts.part_bytes["codebooks"] == 2 * 1536 * 32 * 2


def test_shards_are_read_by_the_index(tmp_path: Path) -> None:
    folder = sharded(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    shard(folder / "1.safetensors", "a")
    shard(folder / "2.safetensors", "b")
    assert [tensor.name for tensor in read_tensors(folder)] == ["a", "b"]


@pytest.mark.parametrize(
    ("weight_map", "said"),
    [
        ({"a": "1.safetensors", "b": "2.safetensors"}, "not there, first 2.safetensors"),
        ({"a": "../1.safetensors"}, "beside the index"),
        ({"a": 3}, "beside the index"),
        ({}, "at least one tensor"),
        ({"a": "1.safetensors", "z": "1.safetensors"}, "does not have it"),
    ],
)
def test_an_index_that_does_not_fit_the_files_is_an_error(
    tmp_path: Path, weight_map: dict[str, Any], said: str
) -> None:
    folder = sharded(tmp_path, weight_map)
    shard(folder / "1.safetensors", "a")
    with pytest.raises(SpecdeckError, match=said) as caught:
        read_tensors(folder)
    assert "index" in str(caught.value.where)


def test_a_snapshot_is_found_by_revision_and_by_main(tmp_path: Path) -> None:
    store = tmp_path / "models--o--m"
    folder = store / "snapshots" / REVISION
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (store / "refs").mkdir()
    (store / "refs" / "main").write_text(REVISION)
    for checkpoint in (Checkpoint(repo="o/m"), Checkpoint(repo="o/m", revision=REVISION)):
        found = locate(checkpoint, tmp_path, cache=tmp_path)
        assert found is not None
        assert (found.folder, found.revision) == (folder, REVISION)
    assert locate(Checkpoint(repo="o/m", revision="b" * 40), tmp_path, cache=tmp_path) is None
    (store / "refs" / "main").write_text("../../../etc")
    with pytest.raises(SpecdeckError, match="commit hash"):
        locate(Checkpoint(repo="o/m"), tmp_path, cache=tmp_path)


def test_the_cache_follows_the_environment() -> None:
    assert str(hub_cache({"HF_HUB_CACHE": "/x"})) == "/x"
    assert str(hub_cache({"HF_HOME": "/h"})) == "/h/hub"


def test_tilde_and_variables_in_the_caches_path_are_expanded_as_the_hubs_own_library_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub_cache({"HF_HUB_CACHE": "~/weights"}) == tmp_path / "weights"
    assert hub_cache({"HF_HOME": "$DISK/hf", "DISK": "/mnt/d"}).as_posix() == "/mnt/d/hf/hub"
    assert hub_cache({"HF_HUB_CACHE": "${DISK}/x", "DISK": "/mnt/d"}).as_posix() == "/mnt/d/x"
    assert hub_cache({"HF_HUB_CACHE": "/a/$NOT_SET/x"}).as_posix() == "/a/$NOT_SET/x"


def test_hashes_are_checked_on_request(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    check_hashes(tmp_path, {"f": hashlib.sha256(b"abc").hexdigest()})
    with pytest.raises(SpecdeckError, match="was expected") as caught:
        check_hashes(tmp_path, {"f": "0" * 64})
    assert caught.value.where == str(tmp_path / "f")
