"""Installs .venv-engine: vLLM's CPU build, pinned and hashed, with the Triton backend of engines/cpu.

A stamp written last says what is installed, so an interrupted installation is noticed and redone.
Only the standard library and pip are used: this runs before anything else works.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from specdeck.engine.host import GIB, Host, check_host
from specdeck.engine.pip_command import CommandFailed, clean_environment, explain, run_command
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[str], None]

VLLM = "0.32.0"
STAMP = ".specdeck-engine.json"
LOCKS = ("requirements.lock", "torch-cpu.lock", "torch-any.lock")
# Measured: 3.4 GiB installed with the CPU build of torch, 6.5 GiB with the public one; pip keeps each download twice.
CPU_BYTES = 6 * GIB
PUBLIC_TORCH_BYTES = 12 * GIB
INSTALL_SECONDS = 2400
LOCK_WAIT_SECONDS = 2700
VERIFY = (
    "import vllm; from vllm.triton_utils import HAS_TRITON; import torch; "
    "print('specdeck-verify', vllm.__version__, torch.__version__, HAS_TRITON)"
)


@dataclass(frozen=True, slots=True)
class EngineEnv:
    """An installed engine environment."""

    python: Path
    vllm: str
    torch: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an environment was installed from; two equal stamps mean nothing is to be done."""

    packages: str
    plugin: str
    location: str
    vllm: str = VLLM
    torch: str = ""

    def same_packages(self, other: Stamp | None) -> bool:
        """Return whether `other` was installed from the same lock files in the same place."""
        return other is not None and (self.packages, self.location, self.vllm) == (
            other.packages,
            other.location,
            other.vllm,
        )


def ensure_engine(venv: Path, *, progress: Progress, source: Path | None = None, host: Host | None = None) -> EngineEnv:
    """Create, repair or find the engine environment at `venv`; safe to call at the same time from two processes.

    Where `venv` is a link, what it leads to is used when it was installed from the same files, and never changed.

    Args:
        venv: the environment's folder, created if missing.
        progress: told each step, a line at a time.
        source: the folder with the lock files and the plugin; `engines/cpu` beside `venv` by default.
        host: the machine to check; this one by default.

    Raises:
        SpecdeckError: the machine cannot run the engine, or the installation failed; with the way out.
    """
    link = venv.absolute()
    source = source or link.parent / "engines" / "cpu"
    venv = link.resolve() if link.is_symlink() else link
    wanted = wanted_stamp(venv, source)
    if current := _current(venv, wanted):
        return current
    if link.is_symlink():
        raise SpecdeckError(
            f"the engine is a link to {venv}, which was installed from other files than {source}",
            where=str(link),
            fix=f"rm '{link}', then run the same command again: it installs an engine of its own",
        )
    check_host(host or Host.here(venv.parent), needed_bytes=0 if wanted.same_packages(read_stamp(venv)) else CPU_BYTES)
    with _only_one(venv, progress):
        if current := _current(venv, wanted):  # another process did it while this one waited
            return current
        return _install(venv, source, wanted, progress)


def wanted_stamp(venv: Path, source: Path) -> Stamp:
    """Return the stamp of an environment installed from `source` as it is now.

    Raises:
        SpecdeckError: a lock file is missing.
    """
    files = [source / name for name in LOCKS]
    for file in files:
        if not file.is_file():
            raise SpecdeckError(
                "the engine's lock file is missing", where=str(file), fix=f"git checkout -- {file.parent.name}"
            )
    plugin = [source / "pyproject.toml", *sorted((source / "src").rglob("*.py"))]
    return Stamp(packages=_digest(files, source), plugin=_digest(plugin, source), location=str(venv))


def _digest(files: list[Path], base: Path) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.relative_to(base)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def read_stamp(venv: Path) -> Stamp | None:
    """Return the stamp in `venv`, or None where there is none that can be read."""
    try:
        return Stamp(**json.loads((venv / STAMP).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_stamp(venv: Path, stamp: Stamp) -> None:
    """Write the stamp whole or not at all."""
    partial = venv / f"{STAMP}.part"
    partial.write_text(json.dumps(asdict(stamp), indent=1) + "\n", encoding="utf-8")
    partial.replace(venv / STAMP)


def interpreter(venv: Path) -> Path:
    """Return the environment's Python, whether it exists or not."""
    return venv / "bin" / "python"


def _current(venv: Path, wanted: Stamp) -> EngineEnv | None:
    found = read_stamp(venv)
    if not wanted.same_packages(found) or found is None or found.plugin != wanted.plugin:
        return None
    python = interpreter(venv)
    # A link whose Python was removed is not executable.
    return EngineEnv(python, found.vllm, found.torch) if os.access(python, os.X_OK) else None


@contextlib.contextmanager
def _only_one(venv: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock beside the environment; the system drops it if this process dies."""
    path = venv.parent / ".cache" / f"{venv.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        deadline, told = time.monotonic() + LOCK_WAIT_SECONDS, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SpecdeckError(
                        "another process has been installing the engine for too long",
                        where=str(path),
                        fix=f"end that process (fuser '{path}' names it), then run the same command again",
                    ) from None
                if not told:
                    progress("Another process is installing the engine: waiting for it.")
                    told = True
                time.sleep(1)
        yield


def _install(venv: Path, source: Path, wanted: Stamp, progress: Progress) -> EngineEnv:
    python = interpreter(venv)
    found = read_stamp(venv)
    keep = wanted.same_packages(found) and os.access(python, os.X_OK)
    (venv / STAMP).unlink(missing_ok=True)
    started = time.monotonic()
    try:
        if not keep:
            _install_packages(venv, source, progress)
        progress("Installing the Triton backend of engines/cpu.")
        _pip(python, ["--no-deps", "--no-build-isolation", "--quiet", "--editable", str(source)], progress)
        progress("Checking that vLLM starts its Python side.")
        torch = _verify(python, venv)
    except CommandFailed as failure:
        raise explain(failure, venv) from None
    except OSError as failure:
        raise SpecdeckError(
            f"the engine could not be installed: {failure}",
            where=str(venv),
            fix="free disk space or mend the folder's permissions, then run the same command again",
        ) from None
    write_stamp(venv, Stamp(wanted.packages, wanted.plugin, wanted.location, wanted.vllm, torch))
    progress(f"The engine is ready: vLLM {VLLM}, torch {torch} ({time.monotonic() - started:.0f} s).")
    return EngineEnv(python, VLLM, torch)


def _install_packages(venv: Path, source: Path, progress: Progress) -> None:
    python = interpreter(venv)
    progress(f"Creating {venv.name} with Python {sys.version.split()[0]}.")
    if venv.exists():
        shutil.rmtree(venv)
    run_command([sys.executable, "-m", "venv", str(venv)], timeout=300, progress=progress)
    progress("Installing torch 2.13.0 for the CPU.")
    try:
        _pip(python, ["--require-hashes", "--no-deps", "-r", str(source / "torch-cpu.lock")], progress)
    except CommandFailed as failure:
        if not failure.unavailable:
            raise
        progress("No CPU build of torch is at hand: installing the public build (about 2.5 GB to download).")
        check_host(Host.here(venv.parent), needed_bytes=PUBLIC_TORCH_BYTES)
        _pip(python, ["--require-hashes", "--no-deps", "-r", str(source / "torch-any.lock")], progress)
    progress(f"Installing vLLM {VLLM} and what it needs (about 160 packages).")
    _pip(python, ["--require-hashes", "--no-deps", "-r", str(source / "requirements.lock")], progress)


def _pip(python: Path, arguments: list[str], progress: Progress) -> None:
    # --no-compile: Python compiles what is imported, a third of these packages' files; pip would compile all of them.
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--no-compile"]
    run_command([str(python), "-m", "pip", "install", *quiet, *arguments], timeout=INSTALL_SECONDS, progress=progress)


def _verify(python: Path, venv: Path) -> str:
    """Return torch's version after importing vLLM with the backend active."""
    environment = clean_environment() | {"TRITON_INTERPRET": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    output = run_command([str(python), "-c", VERIFY], timeout=300, progress=None, environment=environment)
    words = next((line.split() for line in output.splitlines() if line.startswith("specdeck-verify ")), [])
    if len(words) != 4 or not words[1].startswith(VLLM) or words[3] != "True":
        raise SpecdeckError(
            f"the installed engine is not the expected one: {' '.join(words[1:]) or 'no answer'}"
            f" instead of vLLM {VLLM} with Triton",
            where=str(venv),
            fix=f"rm -r '{venv}', then run the same command again",
        )
    return words[2]
