"""Checks a repository out at a pinned commit and merges pull requests at pinned heads, in the order they are named.

    merge_source.py REPOSITORY COMMIT FOLDER REPORT [NUMBER@HEAD …]

A head that moved, a commit that is not there or a conflict ends it with 1, and is named. Commits are made with fixed
names and dates, so that the same pins give the same tree and the same commits. The report is JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

_SHA = re.compile(r"[0-9a-f]{40}")
_PULL = re.compile(r"([1-9]\d*)@([0-9a-f]{40})")
SECONDS = 3600


class Refused(Exception):  # noqa: N818 - it ends the program with a message
    """The source cannot be made: what, and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"error: {what}\n  Fix: {fix}")


@dataclass
class Merge:
    """One merged pull request, and the files it changed against what was there."""

    pull: int
    head: str
    files: list[str]


@dataclass
class Report:
    """What the source was made of."""

    repository: str
    commit: str
    merges: list[Merge] = field(default_factory=list)
    tree: str = ""


class Git:
    """git in one folder, without the user's configuration and without questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()},
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        return subprocess.run(
            ["git", *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip

    def must(self, *words: str) -> str:
        """Run one command and return its output; any failure ends everything."""
        done = self.run(*words)
        if done.returncode != 0:
            raise Refused(f"git {words[0]} failed: {done.stderr.strip()[-500:]}", "see the line above")
        return done.stdout.strip()


_IDENTITY = {"NAME": "specdeck", "EMAIL": "specdeck@localhost", "DATE": "2000-01-01T00:00:00+0000"}


def make(repository: str, commit: str, folder: Path, pulls: list[tuple[int, str]]) -> Report:
    """Make the source.

    Args:
        repository: URL to clone.
        commit: full hash to start from.
        folder: where the source is put; must not exist.
        pulls: number and full hash of each pull request's head, in order.

    Raises:
        Refused: a commit is not there, a head moved, or a merge conflicts.
    """
    folder.mkdir(parents=True)
    git = Git(folder)
    git.must("init", "--quiet")
    git.must("remote", "add", "origin", repository)
    git.must("fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*")
    if not _there(git, commit):
        raise Refused(
            f"commit {commit} is not in {repository}",
            "pin a commit that is on a branch, or whose hash the server gives",
        )
    git.must("checkout", "--quiet", "--detach", commit)
    report = Report(repository, commit)
    for number, head in pulls:
        report.merges.append(_merge(git, number, head, report))
    report.tree = git.must("rev-parse", "HEAD^{tree}")
    return report


def _there(git: Git, commit: str) -> bool:
    if git.run("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0:
        return True
    return git.run("fetch", "--quiet", "origin", commit).returncode == 0


def _merge(git: Git, number: int, head: str, report: Report) -> Merge:
    ref = f"refs/pull/{number}/head"
    if git.run("fetch", "--quiet", "origin", ref).returncode != 0:
        raise Refused(f"there is no {ref} in {report.repository}", "correct the number of the pull request")
    now = git.must("rev-parse", "FETCH_HEAD")
    if now != head:
        raise Refused(
            f"the head of pull request {number} moved: it is {now}, and {head} is pinned",
            f"read what changed, then pin {number}@{now}",
        )
    before = git.must("rev-parse", "HEAD")
    done = git.run("merge", "--quiet", "--no-ff", "-m", f"Merge pull request {number} at {head}", head)
    if done.returncode != 0:
        files = git.run("diff", "--name-only", "--diff-filter=U").stdout.split("\n")
        names = [name for name in files if name]
        merged = ", ".join(str(one.pull) for one in report.merges) or "none before it"
        raise Refused(
            f"pull request {number} conflicts in {', '.join(names) or done.stderr.strip()[-300:]} (merged: {merged})",
            "change the order, leave it out, or pin a head that is rebased",
        )
    return Merge(number, head, git.must("diff", "--name-only", before, "HEAD").split("\n"))


def main(words: list[str]) -> int:
    """Read the command line, make the source, write the report."""
    if len(words) < 4 or not _SHA.fullmatch(words[1]) or not all(_PULL.fullmatch(word) for word in words[4:]):
        print((__doc__ or "").strip() + "\nHashes are 40 hex digits.", file=sys.stderr)
        return 2
    pulls = [(int(found.group(1)), found.group(2)) for word in words[4:] if (found := _PULL.fullmatch(word))]
    try:
        report = make(words[0], words[1], Path(words[2]), pulls)
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    Path(words[3]).write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    for one in report.merges:
        print(f"merged pull request {one.pull} at {one.head}: {', '.join(one.files)}")
    print(f"tree {report.tree}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
