"""Published facts: every file is valid, named after its repository, and gives each value a source."""

from __future__ import annotations

from typing import Any

import pytest

from specdeck.checkpoint import load_facts
from specdeck.checkpoint.library import known_model, model_file
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe.models import Checkpoint

ROOT = repo_root()
FILES = sorted((ROOT / "models").glob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_valid_and_named_after_its_repository(path: Any) -> None:
    owner, name = path.stem.split("--", 1)
    repo = next(line.split()[1] for line in path.read_text().splitlines() if line.startswith("repo:"))
    assert repo.lower() == f"{owner}/{name}"
    model = known_model(repo, ROOT)
    assert model is not None
    needed = {
        "config",
        *(["weight_bytes"] if model.weight_bytes else []),
        *(f"part_bytes.{p}" for p in model.part_bytes),
    }
    needed |= {key for key in ("license", "revision") if getattr(model, key)}
    assert needed <= set(model.sources)


def test_there_are_files_to_check() -> None:
    assert len(FILES) >= 10


def test_a_repository_that_is_not_here_is_planned_from_published_facts() -> None:
    facts = load_facts(Checkpoint(repo="Qwen/Qwen3.8-27B-FP8"), ROOT)
    assert facts is not None
    assert facts.weight_bytes == 30_866_866_928
    assert facts.layer_types is not None
    assert facts.layer_types.count("full_attention") == 16
    assert load_facts(Checkpoint(repo="nobody/nothing"), ROOT) is None


def test_a_wrong_file_is_told_with_its_line(tmp_path: Any) -> None:
    (tmp_path / "models").mkdir()
    path = model_file("o/m", tmp_path)
    path.write_text("repo: o/m\nconfig: {}\nweight_byte: 3\nsources: {}\n")
    with pytest.raises(SpecdeckError, match="weight_byte") as caught:
        known_model("o/m", tmp_path)
    assert "models/o--m.yml:3" in str(caught.value)
