"""A small git repository that plays vLLM's: a package, and pull requests that merge, conflict, or moved."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "vllm"
version = "0.33.0.dev7"
dependencies = ["pydantic", "pyyaml", "packaging"]
[tool.setuptools]
packages = ["vllm"]
"""
CONFIG = "METHODS = ['mtp']\nDEPTH = 1\n\n\n\nLAST = True\n"


class Upstream:
    """The repository, with branch main and the refs `refs/pull/N/head` of its pull requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        self.write("pyproject.toml", PYPROJECT)
        self.write("vllm/__init__.py", "")
        self.write("vllm/_version.py", "__version__ = version = '0.33.0.dev7'\n")
        self.write("vllm/config.py", CONFIG)
        self.commit = self.save("first")
        self.git("update-server-info")  # a plain file server is enough to clone from

    @property
    def url(self) -> str:
        """What git clones."""
        return str(self.folder)

    def git(self, *words: str) -> str:
        names = {f"GIT_{who}_{what}": "t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=os.environ | names, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def save(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def pull(self, number: int, name: str, text: str) -> str:
        """Make a pull request that changes one file, or a further commit of it, and return its head."""
        ref = f"refs/pull/{number}/head"
        there = subprocess.run(
            ["git", "rev-parse", "-q", "--verify", ref], cwd=self.folder, capture_output=True, check=False
        )
        self.git("checkout", "--quiet", "--detach", ref if there.returncode == 0 else self.commit)
        self.write(name, text)
        head = self.save(f"change {name}")
        self.git("update-ref", ref, head)
        self.git("checkout", "--quiet", "main")
        self.git("update-server-info")
        return head
