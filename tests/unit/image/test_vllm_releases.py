"""The committed patches against real vLLM: the installed engine, and releases' sources from their wheels."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

import pytest

from specdeck.errors import SpecdeckError
from specdeck.image.apply import apply_patches, prove
from specdeck.image.check import examine
from specdeck.image.series import Series, load_series
from specdeck.image.tree import Folder, Tree, Wheel, fetch_wheel, open_tree, version_of

ROOT = Path(__file__).parents[3]
# Both shapes of the second call site of mtp-hidden-states-none, and the one of head-dtype-linear-head.
STATUSES = {
    "0.28.0": {
        "dflash2-lm-head-guard": "upstream",
        "head-dtype-linear-head": "applies",
        "mtp-hidden-states-none": "applies",
    },
    "0.31.0": {
        "dflash2-lm-head-guard": "upstream",
        "head-dtype-linear-head": "upstream",
        "mtp-hidden-states-none": "applies",
    },
}


@pytest.fixture(scope="module")
def series() -> Series:
    return load_series(ROOT / "engines" / "patches")


@pytest.fixture(scope="module", params=STATUSES)
def wheel(request: pytest.FixtureRequest) -> Wheel:
    try:
        return Wheel(fetch_wheel(request.param, ROOT / ".cache" / "wheels"))
    except SpecdeckError as error:
        pytest.skip(f"the wheel of vLLM {request.param} cannot be had: {error.what.splitlines()[-1]}")


def statuses(series: Series, tree: Tree) -> dict[str, str]:
    version = version_of(tree)
    assert version is not None
    return {found.id: found.status for found in examine(series, tree, version)}


def test_the_installed_engine_has_all_of_them_already(series: Series) -> None:
    try:
        tree = open_tree(ROOT / ".venv-engine")
    except SpecdeckError:
        pytest.skip("the CPU engine is not installed: .venv-engine")
    assert set(statuses(series, tree).values()) == {"upstream"}


def test_a_release_is_told_as_it_is(series: Series, wheel: Wheel) -> None:
    version = version_of(wheel)
    assert statuses(series, wheel) == STATUSES[str(version)]


def test_what_applies_works_afterwards_and_not_before(series: Series, wheel: Wheel, tmp_path: Path) -> None:
    version = version_of(wheel)
    assert version is not None
    names = [name for name, status in STATUSES[str(version)].items() if status == "applies"]
    files = {path for name in names for diff in series.entry(name).diffs for path in diff.files}
    drops = {series.entry(name).drop.file for name in names}
    with zipfile.ZipFile(wheel.path) as archive:
        for path in files | {drop for drop in drops if drop in archive.namelist()}:
            archive.extract(path, tmp_path)
    for name in names:
        with pytest.raises(SpecdeckError, match="its proof says so"):
            prove(series, series.entry(name), tmp_path)
    apply_patches(series, names, Folder(tmp_path), version)
    for path in files:
        ast.parse((tmp_path / path).read_text("utf-8"))
    for name in names:
        prove(series, series.entry(name), tmp_path)
    entries = [series.entry(name) for name in names]
    assert {found.status for found in examine(series, Folder(tmp_path), version, entries)} == {"applied"}
