"""make_drafter_overlay.sh as a person runs it, and what start.sh says about overlays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import EXIT_UNMEASURABLE
from specdeck.overlay.build import overlays_folder
from specdeck.paths import repo_root

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repo_root()
CONFIG = {"max_position_embeddings": 262_144, "hidden_size": 8, "rope_parameters": {"rope_type": "default"}}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that the scripts write into instead of this one; the name of its drafter's folder names a method."""
    for name in ("overlays", "recipes", "models"):
        shutil.copytree(ROOT / name, tmp_path / name)
    drafter = tmp_path / "my dflash drafter"
    drafter.mkdir()
    (drafter / "config.json").write_text(json.dumps(CONFIG))
    header = b'{"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
    (drafter / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    return tmp_path


def script(name: str, checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"SPECDECK_ROOT": str(checkout), "HF_HUB_CACHE": str(checkout / "hub")}
    return subprocess.run(
        [str(ROOT / name), *words], cwd=checkout, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_drafter_s_table_is_made_as_long_as_asked_and_nothing_is_copied(checkout: Path) -> None:
    words = ("--drafter", "my dflash drafter", "--positions", "400000")
    done = script("make_drafter_overlay.sh", checkout, *words)
    assert done.returncode == 0, done.stderr
    (folder,) = overlays_folder(checkout).iterdir()
    assert "dflash" not in str(folder.relative_to(checkout))
    assert json.loads((folder / "config.json").read_text()) == CONFIG | {"max_position_embeddings": 400_000}
    assert (folder / "model.safetensors").resolve() == checkout / "my dflash drafter" / "model.safetensors"
    assert "max_position_embeddings: 262144 → 400000" in done.stdout
    assert "not needed from vLLM 0.33.0 on" in done.stdout
    assert "current" in script("make_drafter_overlay.sh", checkout, *words).stdout
    assert json.loads((checkout / "my dflash drafter" / "config.json").read_text()) == CONFIG


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "either --recipe or --drafter"),
        (("--drafter", "nowhere"), "not on this machine"),
        (("--recipe", "qwen3.8-27b-fp8-2x5090-512k"), "hf download z-lab/Qwen3.8-27B-DFlash2 --revision 50307d4c"),
        (("--recipe", "no-such-recipe"), "no-such-recipe"),
    ],
)
def test_what_cannot_be_built_is_told_with_a_fix_and_leaves_nothing(
    checkout: Path, words: tuple[str, ...], said: str
) -> None:
    done = script("make_drafter_overlay.sh", checkout, *words)
    assert done.returncode == EXIT_UNMEASURABLE
    assert said in done.stderr
    assert "Fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not overlays_folder(checkout).exists()


def test_a_dry_run_shows_the_overlays_and_needs_neither_weights_nor_builds_anything(checkout: Path) -> None:
    words = (
        "qwen3.8-27b-fp8-2x5090-512k",
        "--arm",
        "dflash2",
        "--dry-run",
        "--runtime",
        "local",
        "--python",
        "python3",
    )
    done = script("start.sh", checkout, *words)
    assert done.returncode == 0, done.stderr
    assert "target: overlay yarn-512k would be built" in done.stderr
    assert "drafter: overlay positions-512k would be built" in done.stderr
    assert done.stdout.count(".cache/overlays/") == 2
    assert not overlays_folder(checkout).exists()
