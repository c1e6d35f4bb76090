"""Missing, empty or exchanged checkpoint files are told before anything starts, with the command that restores them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.recipe import Checkpoint
from specdeck.recipe import files as module
from specdeck.recipe.files import check_files

if TYPE_CHECKING:
    from support.checkout import Checkout

DRAFTER = Checkpoint(path="models/drafter")


def refused(checkout: Checkout, checkpoint: Checkpoint = DRAFTER, *, all_hashes: bool = False) -> SpecdeckError:
    with pytest.raises(SpecdeckError) as caught:
        check_files(checkpoint, "drafter", checkout.root, all_hashes=all_hashes)
    return caught.value


def test_a_complete_checkpoint_passes_and_a_repository_is_left_to_the_engine(checkout: Checkout) -> None:
    check_files(DRAFTER, "drafter", checkout.root)
    check_files(Checkpoint(repo="z-lab/Qwen3.8-27B-DFlash2"), "drafter", checkout.root)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(checkout: Checkout, name: str) -> None:
    (checkout.root / "models" / "drafter" / name).unlink()
    error = refused(checkout)
    assert "*.safetensors" in error.what or name in error.what
    assert error.where == "models/drafter"
    assert error.fix == "git checkout -- models/drafter"


def test_a_missing_folder_names_both_kinds_of_files(checkout: Checkout) -> None:
    error = refused(checkout, Checkpoint(path="models/nowhere"))
    assert "config.json" in error.what
    assert "*.safetensors" in error.what


def test_a_folder_outside_the_checkout_is_not_restored_by_git(checkout: Checkout) -> None:
    error = refused(checkout, Checkpoint(path=str(checkout.root.parent / "elsewhere")))
    assert "git" not in str(error.fix)


def test_empty_weights_are_noticed(checkout: Checkout) -> None:
    (checkout.root / "models" / "drafter" / "model.safetensors").write_bytes(b"")
    assert "are empty" in refused(checkout).what


def test_weights_other_than_the_pinned_ones_are_noticed(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkout.root / "models" / "drafter" / "model.safetensors"
    right = Checkpoint(path="models/drafter", sha256={path.name: hashlib.sha256(path.read_bytes()).hexdigest()})
    check_files(right, "drafter", checkout.root)
    path.write_bytes(b"other weights of sixteen bytes or more")
    assert "not the one this recipe pins" in refused(checkout, right).what
    monkeypatch.setattr(module, "HASHED_AT_START", 8)
    check_files(right, "drafter", checkout.root)
    assert "not the one this recipe pins" in refused(checkout, right, all_hashes=True).what


def test_a_pinned_file_that_is_missing_is_named(checkout: Checkout) -> None:
    pinned = Checkpoint(path="models/drafter", sha256={"tokenizer.json": "0" * 64})
    assert "tokenizer.json is missing" in refused(checkout, pinned).what
