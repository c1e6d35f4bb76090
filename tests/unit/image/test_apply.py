"""Patches are applied all or none, and each proves that it works."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from packaging.version import Version
from support.patches import ONE, ONE_PATCHED, TWO, TWO_PATCHED, entry, series, sha, vllm

from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.apply import apply_patches
from specdeck.image.manifest import Patch
from specdeck.image.series import load_series
from specdeck.image.tree import Folder

V = Version("0.30.0")
FOLLOWING = """\
--- a/vllm/one.py
+++ b/vllm/one.py
@@ -1,2 +1,2 @@
-a = 1
+a = 100
 b = 2
"""


def contents(site: Path) -> dict[str, bytes]:
    return {str(path.relative_to(site)): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def second(folder: Path, before: str, after: str, proof: str = "") -> Path:
    """Write a series whose second patch changes a file that the first one changes too."""
    files = {"vllm/one.py": {"before": sha(before), "after": sha(after)}}
    diffs = [{"file": "b.diff", "sha256": sha(FOLLOWING), "releases": ["0.30.0"], "files": files}]
    folder = series(folder, entry(), entry(id="b-patch", diffs=diffs, proof="b.py"))
    (folder / "b.diff").write_text(FOLLOWING)
    (folder / "b.py").write_text(proof)
    load_series(folder)
    return folder


def test_all_files_are_changed_and_the_manifest_part_says_how(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    (site / "vllm/one.py").chmod(0o640)
    loaded = load_series(series(tmp_path / "patches"))
    assert apply_patches(loaded, ["a-patch"], Folder(site), V) == (
        Patch(
            id="a-patch",
            sha256=loaded.entries[0].diffs[0].sha256,
            files={"vllm/one.py": sha(ONE_PATCHED), "vllm/two.py": sha(TWO_PATCHED)},
        ),
    )
    assert (site / "vllm/one.py").read_text() == ONE_PATCHED
    assert (site / "vllm/two.py").read_text() == TWO_PATCHED
    assert (site / "vllm/one.py").stat().st_mode & 0o777 == 0o640
    assert not [path for path in contents(site) if "specdeck" in path]


def test_no_patches_change_nothing(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    assert apply_patches(load_series(series(tmp_path / "patches")), [], Folder(site), V) == ()
    assert (site / "vllm/one.py").read_text() == ONE


@pytest.mark.parametrize(
    ("version", "one", "said", "fix"),
    [
        ("0.30.0", ONE + "# drift\n", "not those that the patch was written for", "add a diff"),
        ("0.31.0", "c = 300\n", "vLLM has it: drop the patch", "remove a-patch from engine.patches"),
        ("0.28.0", ONE, "older than the patch is for", "take vLLM 0.29.0 or later"),
        ("0.30.0", ONE_PATCHED, "patched already", "add a diff"),
    ],
)
def test_what_does_not_apply_is_refused_and_nothing_changes(
    tmp_path: Path, version: str, one: str, said: str, fix: str
) -> None:
    site = vllm(tmp_path / "site", version, one=one)
    before = contents(site)
    with pytest.raises(SpecdeckError) as caught:
        apply_patches(load_series(series(tmp_path / "patches")), ["a-patch"], Folder(site), Version(version))
    assert said in caught.value.what
    assert fix in (caught.value.fix or "")
    assert caught.value.exit_code == EXIT_FAILED
    assert contents(site) == before


def test_applying_twice_is_refused(tmp_path: Path) -> None:
    site, loaded = vllm(tmp_path / "site"), load_series(series(tmp_path / "patches"))
    apply_patches(loaded, ["a-patch"], Folder(site), V)
    before = contents(site)
    with pytest.raises(SpecdeckError, match="those with the patch"):
        apply_patches(loaded, ["a-patch"], Folder(site), V)
    assert contents(site) == before


def test_a_patch_may_stand_upon_another(tmp_path: Path) -> None:
    both = ONE_PATCHED.replace("a = 1\n", "a = 100\n")
    site = vllm(tmp_path / "site")
    loaded = load_series(second(tmp_path / "patches", ONE_PATCHED, both))
    first, then = apply_patches(loaded, ["b-patch", "a-patch"], Folder(site), V)
    assert (first.id, then.id) == ("a-patch", "b-patch")
    assert (site / "vllm/one.py").read_text() == both
    assert then.files["vllm/one.py"] == hashlib.sha256((site / "vllm/one.py").read_bytes()).hexdigest()


def test_the_first_of_two_is_not_applied_when_the_second_does_not_fit(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    before = contents(site)
    with pytest.raises(SpecdeckError, match="b-patch cannot be applied"):
        apply_patches(load_series(second(tmp_path / "patches", "x", "y")), ["a-patch", "b-patch"], Folder(site), V)
    assert contents(site) == before


def test_a_proof_that_fails_takes_everything_back(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    before = contents(site)
    both = ONE_PATCHED.replace("a = 1\n", "a = 100\n")
    loaded = load_series(second(tmp_path / "patches", ONE_PATCHED, both, proof="raise SystemExit('no good')"))
    with pytest.raises(SpecdeckError, match="no good") as caught:
        apply_patches(loaded, ["a-patch", "b-patch"], Folder(site), V)
    assert caught.value.exit_code == EXIT_FAILED
    assert contents(site) == before


def test_a_failure_between_two_files_takes_the_first_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = vllm(tmp_path / "site")
    before = contents(site)
    replace, calls = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        calls.append(self.name)
        if self.name == "two.py.specdeck-new":
            raise OSError(28, "No space left on device", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(SpecdeckError, match="No space left"):
        apply_patches(load_series(series(tmp_path / "patches")), ["a-patch"], Folder(site), V)
    assert "one.py.specdeck-new" in calls
    assert contents(site) == before


def test_a_created_file_is_removed_when_the_proof_fails(tmp_path: Path) -> None:
    diff = "--- /dev/null\n+++ b/vllm/deep/new.py\n@@ -0,0 +1 @@\n+n = 1\n"
    files = {"vllm/deep/new.py": {"before": None, "after": sha("n = 1\n")}}
    diffs = [{"file": "a-patch.diff", "sha256": sha(diff), "releases": ["0.30.0"], "files": files}]
    for proof, there in (("raise SystemExit(1)", False), ("", True)):
        site = vllm(tmp_path / f"site{there}")
        loaded = load_series(series(tmp_path / f"patches{there}", entry(diffs=diffs), proof=proof, diff=diff))
        if there:
            apply_patches(loaded, ["a-patch"], Folder(site), V)
        else:
            with pytest.raises(SpecdeckError):
                apply_patches(loaded, ["a-patch"], Folder(site), V)
        assert (site / "vllm/deep/new.py").exists() == there


def test_other_names_of_a_file_keep_the_old_content(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    os.link(site / "vllm/two.py", tmp_path / "cache.py")
    apply_patches(load_series(series(tmp_path / "patches")), ["a-patch"], Folder(site), V)
    assert (tmp_path / "cache.py").read_text() == TWO
