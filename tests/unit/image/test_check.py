"""Where a patch stands with a vLLM: each status has its cause, and an upstream that moved raises the alarm."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version
from support.patches import ONE, ONE_PATCHED, TWO_PATCHED, entry, series, vllm

from specdeck.errors import SpecdeckError
from specdeck.image.check import Finding, examine
from specdeck.image.series import load_series
from specdeck.image.tree import open_tree, version_of

if TYPE_CHECKING:
    from pathlib import Path


def finding(tmp_path: Path, version: str = "0.30.0", /, changed: dict[str, Any] | None = None, **files: str) -> Finding:
    loaded = load_series(series(tmp_path / "patches", entry(**(changed or {}))))
    tree = open_tree(vllm(tmp_path / "site", version, **files))
    found = version_of(tree)
    assert found is not None
    (only,) = examine(loaded, tree, found)
    return only


def test_a_patch_applies_where_its_files_are_the_expected_ones(tmp_path: Path) -> None:
    found = finding(tmp_path)
    assert (found.status, found.alarm) == ("applies", False)
    assert found.result == {"vllm/one.py": ONE_PATCHED.encode(), "vllm/two.py": TWO_PATCHED.encode()}


def test_content_decides_and_not_the_name_of_a_release(tmp_path: Path) -> None:
    assert finding(tmp_path, "0.29.1.dev7+gabc").status == "applies"


def test_a_patched_vllm_is_told(tmp_path: Path) -> None:
    assert finding(tmp_path, one=ONE_PATCHED, two=TWO_PATCHED).status == "applied"


def test_from_the_release_that_has_it_the_patch_is_to_be_dropped(tmp_path: Path) -> None:
    found = finding(tmp_path, "0.31.0", one="c = 300\n")
    assert (found.status, found.alarm) == ("upstream", False)
    assert "contains 'c = 300'" in found.lines[0]


def test_upstream_that_has_it_earlier_than_the_series_says_raises_the_alarm(tmp_path: Path) -> None:
    found = finding(tmp_path, one="c = 300\n")
    assert (found.status, found.alarm) == ("upstream", True)
    assert "earlier than the 0.31.0" in found.lines[0]


def test_a_release_that_should_have_it_and_has_not_raises_the_alarm(tmp_path: Path) -> None:
    found = finding(tmp_path, "0.31.0")
    assert (found.status, found.alarm) == ("drifted", True)
    assert "lacks 'c = 300'" in found.lines[0]


def test_a_drop_condition_may_be_that_a_text_is_gone(tmp_path: Path) -> None:
    drop = {"drop": {"when": "w", "file": "vllm/one.py", "lacks": "c = 3"}}
    assert finding(tmp_path, "0.31.0", drop, one="a = 1\n").status == "upstream"
    assert finding(tmp_path, "0.31.0", drop).status == "drifted"


def test_a_file_that_is_gone_does_not_count_as_upstream_having_it(tmp_path: Path) -> None:
    drop = {"drop": {"when": "w", "file": "vllm/gone.py", "lacks": "c = 3"}}
    assert finding(tmp_path, "0.31.0", drop).status == "drifted"


def test_an_older_version_is_too_early(tmp_path: Path) -> None:
    assert finding(tmp_path, "0.28.0").status == "too early"


def test_a_development_version_of_the_release_that_has_it_is_still_before_it(tmp_path: Path) -> None:
    assert finding(tmp_path, "0.31.0.dev3").status == "applies"


def test_a_missing_file_is_absent(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    (site / "vllm/two.py").unlink()
    (found,) = examine(load_series(series(tmp_path / "patches")), open_tree(site), Version("0.30.0"))
    assert (found.status, found.lines) == ("absent", ("there is no vllm/two.py",))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (ONE.replace("d = 4", "d = 44"), ["hunk 1 of 1 at line 4:", "expected: d = 4", "is now:   d = 44"]),
        ("# new\n" + ONE, ["hunk 1 of 1 moved to line 3; at line 2:"]),
        ("a = 1\nb = 2\n", ["is now:   (the file ends)"]),
        (ONE + "# more\n", ["every hunk fits: the file changed elsewhere"]),
        (ONE_PATCHED, ["vllm/one.py: patched already"]),
    ],
)
def test_a_drift_names_the_hunk_and_what_is_there_now(tmp_path: Path, one: str, said: list[str]) -> None:
    found = finding(tmp_path, one=one)
    assert (found.status, found.alarm) == ("drifted", True)
    for text in said:
        assert any(text in line for line in found.lines), found.lines


def test_a_diff_that_makes_something_else_than_the_series_says_is_told(tmp_path: Path) -> None:
    wrong = entry()["diffs"]
    wrong[0]["files"]["vllm/two.py"]["after"] = "0" * 64
    found = finding(tmp_path, changed={"diffs": wrong})
    assert found.status == "drifted"
    assert "another vllm/two.py than the series says" in found.lines[0]


def test_a_wheel_is_read_as_its_unpacked_files(tmp_path: Path) -> None:
    site, wheel = vllm(tmp_path / "site"), tmp_path / "vllm-0.30.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in (site / "vllm").iterdir():
            archive.write(file, f"vllm/{file.name}")
    loaded = load_series(series(tmp_path / "patches"))
    packed, plain = (examine(loaded, open_tree(path), Version("0.30.0")) for path in (wheel, site))
    assert packed == plain
    assert version_of(open_tree(wheel)) == Version("0.30.0")


def test_a_virtual_environment_is_found_by_its_root(tmp_path: Path) -> None:
    vllm(tmp_path / "venv/lib/python3.11/site-packages", "0.32.0+cpu")
    assert version_of(open_tree(tmp_path / "venv")) == Version("0.32.0")


def test_a_folder_without_vllm_and_a_broken_wheel_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="there is no vLLM"):
        open_tree(tmp_path)
    (tmp_path / "w.whl").write_bytes(b"not a zip")
    with pytest.raises(SpecdeckError, match="cannot be read"):
        open_tree(tmp_path / "w.whl").read("vllm/one.py")
