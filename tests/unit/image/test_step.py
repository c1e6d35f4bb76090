"""The step inside an image: patches what its own Python imports as vLLM, and says what the image is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.patches import ONE, ONE_PATCHED, series, vllm

from specdeck.image.manifest import Base, load

SRC = Path(__file__).parents[3] / "src"


def step(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    series(tmp_path / "patches")
    return subprocess.run(
        [
            *(sys.executable, "-m", "specdeck.image.step", "--series", str(tmp_path / "patches")),
            *("--device", "cpu", "--base", "debian:bookworm", "--out", str(tmp_path / "out"), *words),
        ],
        env=os.environ | {"PYTHONPATH": f"{SRC}:{tmp_path / 'site'}"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )


def test_it_patches_and_writes_manifest_and_packages(tmp_path: Path) -> None:
    site = vllm(tmp_path / "site")
    digest = "sha256:" + "d" * 64
    done = step(tmp_path, "--patches", "a-patch", "--base-digest", digest, "--build-arg", "A=1", "--build-arg", "B=")
    assert done.returncode == 0, done.stderr
    manifest = load(tmp_path / "out/manifest.json")
    assert manifest.vllm == "0.30.0"
    assert manifest.base == Base(ref="debian:bookworm", digest=digest)
    assert [patch.id for patch in manifest.patches] == ["a-patch"]
    assert manifest.build_args == {"A": "1"}
    assert (site / "vllm/one.py").read_text() == ONE_PATCHED
    assert f"python pydantic {version('pydantic')}" in (tmp_path / "out/packages.txt").read_text().splitlines()


def test_no_patches_are_fine(tmp_path: Path) -> None:
    vllm(tmp_path / "site")
    assert step(tmp_path).returncode == 0
    assert load(tmp_path / "out/manifest.json").patches == ()


@pytest.mark.parametrize(
    ("words", "one", "said"),
    [
        (["--patches", "a-patch"], ONE + "# drift\n", "not those that the patch was written for"),
        (["--patches", "a-patch,none"], ONE, "no patch 'none'"),
        (["--vllm", "0.31.0"], ONE, "vLLM 0.30.0 and not 0.31.0"),
    ],
)
def test_what_cannot_be_done_fails_and_leaves_no_manifest(
    tmp_path: Path, words: list[str], one: str, said: str
) -> None:
    site = vllm(tmp_path / "site", one=one)
    done = step(tmp_path, *words)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Fix:" in done.stderr
    assert not (tmp_path / "out/manifest.json").exists()
    assert (site / "vllm/one.py").read_text() == one


def test_a_python_without_vllm_is_told(tmp_path: Path) -> None:
    done = step(tmp_path)
    assert done.returncode == 2
    assert "has no vLLM" in done.stderr
