"""Provenance keeps what explains a figure and nothing secret."""

import subprocess
from pathlib import Path

from specdeck.run import provenance


def test_secret_values_never_appear_and_unrelated_variables_are_dropped() -> None:
    kept = provenance.public_environment(
        {"HF_TOKEN": "hf_abc", "VLLM_API_KEY": "sk-1", "VLLM_USE_V1": "1", "HOME": "/home/me", "AWS_SECRET": "x"}
    )
    assert kept == {"HF_TOKEN": "<set>", "VLLM_API_KEY": "<set>", "VLLM_USE_V1": "1"}


def test_paths_below_the_checkout_are_written_relative_to_it() -> None:
    root = Path("/srv/my decks/specdeck")
    assert provenance.without_root(f"{root}/models/tiny-next", root) == "models/tiny-next"
    assert provenance.without_root(str(root), root) == "."


def test_git_state_of_a_folder_that_is_no_checkout_is_none_not_an_error(tmp_path: Path) -> None:
    assert provenance.git_state(tmp_path) == {"commit": None, "dirty": None, "diff_sha256": None}


def test_a_changed_tree_is_dirty_and_names_its_diff(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-qm", "start")
    clean = provenance.git_state(tmp_path)
    (tmp_path / "src" / "a.py").write_text("a = 2\n")
    changed = provenance.git_state(tmp_path)
    assert (clean["dirty"], clean["diff_sha256"]) == (False, None)
    assert changed["commit"] == clean["commit"]
    assert changed["dirty"] is True
    assert len(changed["diff_sha256"]) == 64


def test_collect_never_raises_and_names_this_host() -> None:
    found = provenance.collect(Path("/nowhere"), argv=["specdeck", "bench"])
    assert found["argv"] == ["specdeck", "bench"]
    assert found["host"]["cores"] >= 1
