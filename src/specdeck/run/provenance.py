"""Where a result comes from: versions, git state, host, accelerators, command line, environment without secrets.

Best effort by design: what cannot be read is None and never stops a measurement.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from specdeck.telemetry.gpu import describe_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT_PREFIXES = (
    "VLLM_", "HF_", "CUDA_", "NVIDIA_", "NCCL_", "OMP_", "KMP_", "MKL_", "TRITON_", "TORCH", "PYTORCH_",
    "LD_PRELOAD", "SPECDECK_", "MALLOC_",
)  # fmt: skip
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|COOKIE)", re.IGNORECASE)
_IN_NAME = r"[\w+~@%#-]"
_NAME_AT_END = re.compile(r"[\w.+~@%#/-]+\Z")
_LONGEST_NAME = 4096
_PACKAGES = ("aiohttp", "msgspec", "numpy", "orjson", "pydantic", "uvloop")


def public_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables that change how an engine runs; a secret's value becomes `<set>`."""
    return {
        name: "<set>" if _SECRET.search(name) else value
        for name, value in sorted(env.items())
        if name.startswith(_KEPT_PREFIXES)
    }


def without_root(text: str, root: Path) -> str:
    """Write paths at or below the checkout relative to it, so that results carry no one's directory names.

    Only whole paths: with the checkout in /a/b, neither /a/bc nor /x/a/b lies in it, and both stay as they are.
    """
    place = str(root).rstrip(os.sep)
    parts, done = [], 0
    for found in re.finditer(rf"{re.escape(place)}(?:/+(?=[.]*{_IN_NAME})|(?![.]?{_IN_NAME}))", text):
        if _begins_path(text[max(done, found.start() - _LONGEST_NAME) : found.start()]):
            parts += [text[done : found.start()], "" if found[0].endswith(os.sep) else "."]
            done = found.end()
    return "".join([*parts, text[done:]])


def values_without_root(value: Any, root: Path) -> Any:
    """The same in every string of a JSON value, names of members left as they are."""
    if isinstance(value, str):
        return without_root(value, root)
    if isinstance(value, dict):
        return {name: values_without_root(item, root) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [values_without_root(item, root) for item in value]
    return value


def _begins_path(before: str) -> bool:
    """Whether an absolute path can begin after this text: after no name, a URL's scheme or an option (-I/a/b)."""
    name = _NAME_AT_END.search(before)
    return name is None or before.endswith("://") or re.fullmatch(r"--?[A-Za-z]+", name[0]) is not None


def git_state(root: Path) -> dict[str, Any]:
    """Commit, and for a changed tree the sha256 of its diff (untracked files are not part of it)."""
    commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    diff = _output(["git", "-C", str(root), "diff", "HEAD", "--", "src", "recipes", "bench", "engines", "models"])
    return {
        "commit": commit,
        "dirty": bool(diff) if diff is not None else None,
        "diff_sha256": hashlib.sha256(diff.encode()).hexdigest() if diff else None,
    }


def host() -> dict[str, Any]:
    """The machine: CPU model, cores, memory, kernel, GPUs with driver when there are any."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        "physical_cores": psutil.cpu_count(logical=False),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "gpus": describe_gpus(),
    }


def collect(root: Path, argv: list[str] | None = None) -> dict[str, Any]:
    """Gather everything about this side of the measurement; the engine's side comes from the readiness proof."""
    return {
        "specdeck": importlib.metadata.version("specdeck"),
        "git": git_state(root),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "host": host(),
        "argv": [without_root(word, root) for word in (argv if argv is not None else sys.argv)],
        "environment": {name: without_root(value, root) for name, value in public_environment(os.environ).items()},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None


def _output(argv: list[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
