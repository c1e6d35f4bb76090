"""An image says what it was built from, and one that is not what the recipe asks for is told apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.checkout import RECIPE

from specdeck.errors import SpecdeckError
from specdeck.image.manifest import LABEL, MAX_BYTES, Base, Manifest, Patch, dump, from_labels, load, mismatches
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from support.checkout import Checkout

    from specdeck.recipe import Recipe

DIFF, FILE = "a" * 64, "b" * 64
PATCH = Patch(id="a-patch", sha256=DIFF, files={"vllm/config/vllm.py": FILE})
MANIFEST = Manifest(
    vllm="0.32.0",
    device="cuda",
    base=Base(ref="example/vllm:v0.32.0", digest="sha256:" + "c" * 64),
    patches=(PATCH,),
    harness="0.1.0",
    build_args={"VLLM_VERSION": "0.32.0"},
)


def recipe_for(checkout: Checkout, patches: str = "[a-patch]") -> Recipe:
    checkout.recipe(
        "r",
        RECIPE.replace(
            'engine: {vllm: "==0.32.0", runtime: local, environment: cpu}\nhardware: {device: cpu, class: x86-64}',
            f'engine: {{vllm: "==0.32.0", runtime: docker, patches: {patches}}}\n'
            "hardware: {device: cuda, gpus: 2, class: rtx3090}",
        ),
    )
    return load_recipe("r")


def changed(**values: Any) -> bytes:
    return json.dumps(json.loads(dump(MANIFEST)) | values).encode()


def test_a_manifest_is_read_back_as_it_was_written_from_file_text_and_label(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(dump(MANIFEST))
    assert load(path) == load(str(path)) == load(dump(MANIFEST)) == MANIFEST
    assert from_labels({LABEL: dump(MANIFEST).decode(), "other": "x"}) == MANIFEST


def test_an_image_without_the_label_has_no_manifest() -> None:
    assert from_labels({"maintainer": "x"}) is None


def test_equal_manifests_are_equal_bytes() -> None:
    assert dump(load(changed())) == dump(MANIFEST)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"", "no image manifest"),
        (b"[]", "no image manifest"),
        (b"\xff{}", "no image manifest"),
        (b"{}", "vllm"),
        (changed(vllm="newest"), "is not a version"),
        (changed(schema_version=2), "schema_version"),
        (changed(device="tpu"), "device"),
        (changed(surprise=1), "surprise"),
        (changed(base={"ref": "x", "digest": "sha256:abc"}), "base.digest"),
        (changed(patches=[{"id": "a", "sha256": DIFF, "files": {}}]), "patches.0.files"),
        (changed(patches=[{"id": "a", "sha256": DIFF, "files": {"../etc/passwd": FILE}}]), "patches.0.files"),
        (changed(patches=[{"id": "a", "sha256": DIFF, "files": {"/etc/passwd": FILE}}]), "patches.0.files"),
        (changed(patches=[{"id": "a", "sha256": DIFF, "files": {"f.py": FILE}}] * 2), "listed twice"),
        (b" " * (MAX_BYTES + 1), "larger"),
    ],
)
def test_what_is_no_manifest_is_refused_by_key(raw: bytes, named: str) -> None:
    with pytest.raises(SpecdeckError, match=named) as caught:
        load(raw)
    assert caught.value.fix


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="cannot be read") as caught:
        load(tmp_path / "none.json")
    assert caught.value.where == str(tmp_path / "none.json")


def test_the_image_of_a_recipe_has_no_mismatch(checkout: Checkout) -> None:
    assert mismatches(MANIFEST, recipe_for(checkout)) == []
    assert mismatches(MANIFEST, recipe_for(checkout), {"a-patch": DIFF, "another": FILE}) == []


def test_another_version_or_device_is_said(checkout: Checkout) -> None:
    other = MANIFEST.model_copy(update={"vllm": "0.33.0", "device": "cpu"})
    version, device = mismatches(other, recipe_for(checkout))
    assert "0.33.0" in version
    assert "==0.32.0" in version
    assert "cpu" in device
    assert "cuda" in device


def test_missing_and_foreign_patches_are_said(checkout: Checkout) -> None:
    lacks, carries = mismatches(MANIFEST, recipe_for(checkout, "[b-patch]"))
    assert lacks == "the image lacks the patch b-patch"
    assert carries == "the image carries the patch a-patch, which the recipe does not name"


@pytest.mark.parametrize(("diffs", "said"), [({"a-patch": FILE}, "another version"), ({}, "no patch a-patch")])
def test_a_patch_that_is_not_the_checkouts_is_said(checkout: Checkout, diffs: dict[str, str], said: str) -> None:
    (only,) = mismatches(MANIFEST, recipe_for(checkout), diffs)
    assert said in only
