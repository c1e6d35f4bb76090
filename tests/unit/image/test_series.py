"""The series says everything about each patch, and what contradicts itself is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version
from support.patches import DIFF, entry, series, sha

from specdeck.errors import SpecdeckError
from specdeck.image.manifest import Base, Manifest, Patch
from specdeck.image.series import current_diffs, load_series
from specdeck.planner.kv import QSA_RING_PATCH
from specdeck.recipe import load_recipe
from specdeck.recipe.load import list_recipes
from specdeck.rules.areas.flash_next import CAPTURE_PATCH, METHOD_PATCH
from specdeck.rules.versions import RELEASES, admitted

if TYPE_CHECKING:
    from collections.abc import Callable

PATCHES = Path(__file__).parents[3] / "engines" / "patches"


def diffs(change: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    only: dict[str, Any] = entry()["diffs"][0]
    change(only)
    return [only]


def test_a_series_is_read_with_its_diffs(tmp_path: Path) -> None:
    loaded = load_series(series(tmp_path))
    assert [one.id for one in loaded.entries] == ["a-patch"]
    assert [file.path for file in loaded.diffs["a-patch.diff"]] == ["vllm/one.py", "vllm/two.py"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"upstream": "see the forum"}, "right form"),
        ({"upstream": "https://github.com/a/b/pull/1 and https://github.com/a/b/pull/2"}, "right form"),
        ({"since": "0.29"}, "right form"),
        ({"before": "0.29.0"}, "not after"),
        ({"drop": {"when": "w", "file": "vllm/one.py"}}, "either `contains` or `lacks`"),
        ({"proof": "none.py"}, "there is no none.py"),
        ({"diffs": []}, "at least this long"),
        ({"diffs": diffs(lambda diff: diff.update(sha256="0" * 64))}, f"has the SHA-256 {sha(DIFF)}"),
        ({"diffs": diffs(lambda diff: diff.update(file="none.diff"))}, "cannot be read"),
        ({"diffs": diffs(lambda diff: diff.update(releases=[]))}, "either `releases` or `source`"),
        ({"diffs": diffs(lambda diff: diff.update(releases=["0.31.0"]))}, "not from 0.29.0 to before 0.31.0"),
        ({"diffs": diffs(lambda diff: diff["files"].pop("vllm/two.py"))}, "the diff changes vllm/one.py, vllm/two.py"),
        (
            {"diffs": diffs(lambda diff: diff["files"].update({"vllm/two.py": {"before": None, "after": "1" * 64}}))},
            "null where the diff creates",
        ),
        (
            {"diffs": diffs(lambda diff: diff["files"].update({"../two.py": {"before": None, "after": "1" * 64}}))},
            "right form",
        ),
        ({"diffs": [*entry()["diffs"], *entry()["diffs"]]}, "two diffs are for the same release"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecdeckError) as caught:
        load_series(series(tmp_path, entry(**changed)))
    assert said in str(caught.value)
    assert "series.yml:" in str(caught.value)


def test_two_patches_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="listed twice"):
        load_series(series(tmp_path, entry(), entry()))


def test_patches_come_in_the_order_of_the_series_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    loaded = load_series(series(tmp_path, entry(), entry(id="b-patch")))
    assert [one.id for one in loaded.in_order(["b-patch", "a-patch"])] == ["a-patch", "b-patch"]
    with pytest.raises(SpecdeckError, match="no patch 'a-pach'") as caught:
        loaded.in_order(["a-pach"])
    assert "a-patch" in (caught.value.fix or "")


def test_each_patch_of_this_checkout_has_a_diff_for_each_release_of_its_range() -> None:
    for one in load_series(PATCHES).entries:
        releases = {release for diff in one.diffs for release in diff.releases}
        if any(diff.source for diff in one.diffs):
            continue  # for builds from source: no release has the file
        wanted = {str(v) for v in RELEASES if Version(one.since) <= v < Version(one.before)}
        assert releases == wanted, one.id


def test_each_diff_and_proof_of_this_checkout_is_named_by_the_series() -> None:
    loaded = load_series(PATCHES)
    named = {diff.file for one in loaded.entries for diff in one.diffs} | {one.proof for one in loaded.entries}
    there = {str(p.relative_to(PATCHES)) for kind in ("*/*.diff", "proofs/*.py") for p in PATCHES.glob(kind)}
    assert there - {"proofs/statements.py"} == named


def test_each_patch_that_a_recipe_or_a_rule_names_is_in_the_series() -> None:
    known = {one.id for one in load_series(PATCHES).entries}
    assert {CAPTURE_PATCH, METHOD_PATCH, QSA_RING_PATCH} <= known
    for name in list_recipes():
        assert set(load_recipe(name).engine.patches) <= known, name


def test_the_patches_of_a_recipe_are_for_each_release_that_it_admits() -> None:
    series = load_series(PATCHES)
    named = [load_recipe(name).engine for name in list_recipes()]
    for engine in named:
        for release in (version for version in admitted(engine.vllm) if version in RELEASES):
            for one in (series.entry(patch) for patch in engine.patches):
                assert Version(one.since) <= release < Version(one.before), (one.id, release)
    assert any(engine.patches for engine in named)


def test_an_images_patch_is_current_when_it_is_one_of_the_checkouts_diffs(tmp_path: Path) -> None:
    loaded = load_series(series(tmp_path))

    def carries(name: str, sha256: str) -> Manifest:
        patch = Patch(id=name, sha256=sha256, files={"vllm/one.py": "1" * 64})
        return Manifest(vllm="0.30.0", device="cpu", base=Base(ref="b"), patches=(patch,), harness="0")

    own = loaded.entries[0].diffs[0].sha256
    assert current_diffs(loaded, carries("a-patch", own)) == {"a-patch": own}
    assert current_diffs(loaded, carries("a-patch", "2" * 64)) == {"a-patch": own}
    assert current_diffs(loaded, carries("dropped", own)) == {}
