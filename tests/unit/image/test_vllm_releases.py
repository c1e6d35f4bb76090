"""The committed patches against real vLLM: the installed engine, and releases' sources from their wheels."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from packaging.version import Version

from specdeck.errors import SpecdeckError
from specdeck.image.apply import apply_patches, prove
from specdeck.image.check import examine
from specdeck.image.series import Series, load_series
from specdeck.image.tree import Folder, Tree, Wheel, fetch_wheel, open_tree, version_of

ROOT = Path(__file__).parents[3]
OLD = ("dflash2-lm-head-guard", "head-dtype-linear-head", "mtp-hidden-states-none")
FLASH_NEXT = ("qwen4exp-aux-hidden-states", "qwen4exp-dflash-method", "qwen4exp-qsa-ring")
# Both shapes of the second call site of mtp-hidden-states-none, the one of head-dtype-linear-head, both of the rest.
STATUSES = {
    "0.28.0": dict.fromkeys(OLD[1:], "applies") | {OLD[0]: "upstream"} | dict.fromkeys(FLASH_NEXT, "too early"),
    "0.31.0": dict.fromkeys(OLD[:2], "upstream") | {OLD[2]: "applies"} | dict.fromkeys(FLASH_NEXT, "too early"),
    "0.32.0": dict.fromkeys(OLD, "upstream") | dict.fromkeys(FLASH_NEXT, "applies"),
    "0.33.0": dict.fromkeys(OLD, "upstream") | dict.fromkeys(FLASH_NEXT, "applies"),
}


@pytest.fixture(scope="module")
def series() -> Series:
    return load_series(ROOT / "engines" / "patches")


@pytest.fixture(scope="module", params=STATUSES)
def release(request: pytest.FixtureRequest) -> Tree:
    """A release of vLLM: the installed engine where it is that one, else the wheel."""
    try:
        installed = open_tree(ROOT / ".venv-engine")
        if version_of(installed) == Version(request.param):
            return installed
    except SpecdeckError:
        pass
    try:
        return Wheel(fetch_wheel(request.param, ROOT / ".cache" / "wheels"))
    except SpecdeckError as error:
        pytest.skip(f"the wheel of vLLM {request.param} cannot be had: {error.what.splitlines()[-1]}")


def version(tree: Tree) -> Version:
    found = version_of(tree)
    assert found is not None
    return found


def unpack(series: Series, names: list[str], tree: Tree, folder: Path) -> set[str]:
    """Write what the patches change, and where it is seen that they are not needed; return the former."""
    files = {path for name in names for diff in series.entry(name).diffs for path in diff.files}
    for path in files | {series.entry(name).drop.file for name in names}:
        raw = tree.read(path)
        if raw is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(raw)
    return files


def test_a_release_is_told_as_it_is(series: Series, release: Tree) -> None:
    found = {found.id: found.status for found in examine(series, release, version(release))}
    assert found == STATUSES[str(version(release))]


def test_what_applies_works_afterwards_and_not_before(series: Series, release: Tree, tmp_path: Path) -> None:
    names = [name for name, status in STATUSES[str(version(release))].items() if status == "applies"]
    files = unpack(series, names, release, tmp_path)
    for name in names:
        with pytest.raises(SpecdeckError, match="its proof says so"):
            prove(series, series.entry(name), tmp_path)
    apply_patches(series, names, Folder(tmp_path), version(release))
    for path in files:
        ast.parse((tmp_path / path).read_text("utf-8"))
    for name in names:
        prove(series, series.entry(name), tmp_path)
    entries = [series.entry(name) for name in names]
    assert {found.status for found in examine(series, Folder(tmp_path), version(release), entries)} == {"applied"}


def test_what_applies_is_refused_for_other_releases_and_other_files(
    series: Series, release: Tree, tmp_path: Path
) -> None:
    names = [name for name, status in STATUSES[str(version(release))].items() if status == "applies"]
    files = unpack(series, names, release, tmp_path)
    for name in names:
        entry = series.entry(name)
        for other in ("0.27.0", entry.before):
            with pytest.raises(SpecdeckError, match=f"{name} cannot be applied to vLLM {other}"):
                apply_patches(series, [name], Folder(tmp_path), Version(other))
    for path in files:
        (tmp_path / path).write_bytes((tmp_path / path).read_bytes() + b"# changed\n")
    for name in names:
        with pytest.raises(SpecdeckError, match="not those that the patch was written for"):
            apply_patches(series, [name], Folder(tmp_path), version(release))
