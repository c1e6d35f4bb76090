"""Provenance keeps what explains a figure and nothing secret."""

import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/a/b/models/x", "models/x"),
        ("--model=/a/b/models/x", "--model=models/x"),
        ("-I/a/b/include -L /a/b", "-Iinclude -L ."),
        ("/a/b/bin:/usr/bin:/a/b", "bin:/usr/bin:."),
        ("file:///a/b/x", "file://x"),
        ('{"path":"/a/b","log":"/a/b/log"}', '{"path":".","log":"log"}'),
        ("it lies in /a/b. Read /a/b/.env", "it lies in .. Read .env"),
        ("/a/b/", "./"),
        ("/a/b//x", "x"),
        ("/a/b/a/b", "a/b"),
    ],
)
def test_every_whole_path_in_a_text_is_written_relative(text: str, shown: str) -> None:
    assert provenance.without_root(text, Path("/a/b")) == shown


@pytest.mark.parametrize(
    "text", ["/a/bc", "/a/bc/d", "/a/b-old/x", "/a/b.bak", "/a/b_2", "/a/b+x/y", "/x/a/b/c", "x/a/b", "./a/b", "/a"]
)
def test_a_path_that_only_looks_like_the_checkouts_stays_whole(text: str) -> None:
    assert provenance.without_root(text, Path("/a/b")) == text
    assert provenance.without_root(f"--model={text} /a/b/y", Path("/a/b")) == f"--model={text} y"


def test_a_checkout_whose_name_means_something_in_patterns_is_a_name() -> None:
    assert provenance.without_root("/a/b+(1)/x /a/bb/x", Path("/a/b+(1)")) == "x /a/bb/x"


def test_paths_are_found_in_every_string_of_a_proof_after_an_end_of_line_too() -> None:
    proof = {"log": "read\n/a/b/x", "args": ["/a/b", "/a/bc"], "n": 3, "more": {"/a/b": None}}
    shown = {"log": "read\nx", "args": [".", "/a/bc"], "n": 3, "more": {"/a/b": None}}
    assert provenance.values_without_root(proof, Path("/a/b")) == shown


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
