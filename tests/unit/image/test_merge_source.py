"""A source is a pinned commit and pull requests at pinned heads: merged in order, or refused with what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.upstream import CONFIG, Upstream

if TYPE_CHECKING:
    from collections.abc import Sequence

SCRIPT = Path(__file__).parents[3] / "docker" / "merge_source.py"
DFLASH = CONFIG.replace("['mtp']", "['mtp', 'dflash']")
DEPTH = CONFIG.replace("LAST = True", "LAST = False")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def merge(
    tmp_path: Path, upstream: Upstream, pulls: Sequence[str], commit: str | None = None, name: str = "out"
) -> tuple[subprocess.CompletedProcess[str], Path, Any]:
    folder, report = tmp_path / name, tmp_path / f"{name}.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), upstream.url, commit or upstream.commit, str(folder), str(report), *pulls],
        capture_output=True,
        text=True,
        check=False,
    )
    return done, folder, json.loads(report.read_text()) if report.exists() else None


def test_pull_requests_are_merged_in_order_and_reported(tmp_path: Path, upstream: Upstream) -> None:
    first, second = upstream.pull(1, "vllm/config.py", DFLASH), upstream.pull(2, "vllm/config.py", DEPTH)
    done, folder, report = merge(tmp_path, upstream, [f"1@{first}", f"2@{second}"])
    assert done.returncode == 0, done.stderr
    assert (folder / "vllm/config.py").read_text() == DFLASH.replace("LAST = True", "LAST = False")
    assert report["commit"] == upstream.commit
    assert [(one["pull"], one["head"], one["files"]) for one in report["merges"]] == [
        (1, first, ["vllm/config.py"]),
        (2, second, ["vllm/config.py"]),
    ]
    assert f"merged pull request 2 at {second}: vllm/config.py" in done.stdout


def test_the_same_pins_give_the_same_commits(tmp_path: Path, upstream: Upstream) -> None:
    head = upstream.pull(1, "vllm/config.py", DFLASH)
    found = []
    for name in ("a", "b"):
        _, folder, report = merge(tmp_path, upstream, [f"1@{head}"], name=name)
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        found.append((commit, report["tree"]))
    assert found[0] == found[1]


def test_a_commit_is_kept_although_the_branch_went_on(tmp_path: Path, upstream: Upstream) -> None:
    upstream.write("vllm/config.py", "later\n")
    upstream.save("later")
    done, folder, _ = merge(tmp_path, upstream, [])
    assert done.returncode == 0
    assert (folder / "vllm/config.py").read_text() == CONFIG


def test_a_head_that_moved_is_refused_with_both_hashes(tmp_path: Path, upstream: Upstream) -> None:
    pinned = upstream.pull(1, "vllm/config.py", DFLASH)
    now = upstream.pull(1, "vllm/config.py", DEPTH)
    done, _, report = merge(tmp_path, upstream, [f"1@{pinned}"])
    assert done.returncode == 1
    assert f"pull request 1 moved: it is {now}, and {pinned} is pinned" in done.stderr
    assert f"pin 1@{now}" in done.stderr
    assert report is None


def test_a_conflict_names_the_file_and_what_was_merged_before(tmp_path: Path, upstream: Upstream) -> None:
    first = upstream.pull(1, "vllm/config.py", DFLASH)
    other = upstream.pull(3, "vllm/config.py", CONFIG.replace("['mtp']", "['ngram']"))
    done, _, report = merge(tmp_path, upstream, [f"1@{first}", f"3@{other}"])
    assert done.returncode == 1
    assert "pull request 3 conflicts in vllm/config.py (merged: 1)" in done.stderr
    assert "Fix:" in done.stderr
    assert report is None


def test_what_is_not_there_is_named(tmp_path: Path, upstream: Upstream) -> None:
    done, _, _ = merge(tmp_path, upstream, [], commit="0" * 40, name="a")
    assert (done.returncode, f"commit {'0' * 40} is not in" in done.stderr) == (1, True)
    done, _, _ = merge(tmp_path, upstream, [f"9@{'0' * 40}"], name="b")
    assert (done.returncode, "there is no refs/pull/9/head" in done.stderr) == (1, True)


@pytest.mark.parametrize("words", [["1@abc"], ["main"], ["--upload-pack=x"]])
def test_what_is_no_pin_is_refused(tmp_path: Path, upstream: Upstream, words: list[str]) -> None:
    assert merge(tmp_path, upstream, words)[0].returncode == 2
    assert merge(tmp_path, upstream, [], commit=upstream.commit[:12])[0].returncode == 2
