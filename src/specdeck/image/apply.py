"""Applies patches to an installed vLLM or a source checkout: all of them or none, and each with its proof.

New files are written beside the old ones first; only then are they moved into place, and moved back if anything fails.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.check import MEANS, Finding, examine_one
from specdeck.image.manifest import Patch
from specdeck.image.tree import Changed, Folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packaging.version import Version

    from specdeck.image.series import Entry, Series

PROOF_SECONDS = 120
_PART, _OLD = ".specdeck-new", ".specdeck-old"


def planned(series: Series, names: Sequence[str], tree: Folder, version: Version) -> list[tuple[Entry, Finding]]:
    """Work out what the named patches do together, in the order of the series, without writing anything.

    Raises:
        SpecdeckError: a patch is unknown, or one of them does not apply; says which and why.
    """
    done: dict[str, bytes] = {}
    plan: list[tuple[Entry, Finding]] = []
    for entry in series.in_order(names):
        found = examine_one(series, entry, Changed(tree, done), version)
        if found.status != "applies":
            raise refused(entry, found, tree, version)
        done |= found.result
        plan.append((entry, found))
    return plan


def apply_patches(series: Series, names: Sequence[str], tree: Folder, version: Version) -> tuple[Patch, ...]:
    """Apply the named patches and prove each.

    Args:
        series: the checkout's patches.
        names: ids, in any order; applied in the order of the series.
        tree: the vLLM to change.
        version: what it is, without a local part.

    Returns:
        What was applied, in order.

    Raises:
        SpecdeckError: one of them does not apply, cannot be written, or its proof fails. Nothing is changed then.
    """
    plan = planned(series, names, tree, version)
    result: dict[str, bytes] = {}
    for _, found in plan:
        result |= found.result
    moved: list[tuple[Path, bool]] = []
    try:
        _write(tree.root, result, moved)
        for entry, _ in plan:
            prove(series, entry, tree.root)
    except BaseException:
        _undo(moved)
        raise
    finally:
        for name in result:
            for suffix in (_PART, _OLD):
                _beside(tree.root / name, suffix).unlink(missing_ok=True)
    return tuple(
        Patch(
            id=entry.id,
            sha256=found.diff.sha256,
            files={name: hashlib.sha256(raw).hexdigest() for name, raw in sorted(found.result.items())},
        )
        for entry, found in plan
        if found.diff is not None
    )


def prove(series: Series, entry: Entry, root: Path) -> None:
    """Run a patch's proof against a vLLM.

    Raises:
        SpecdeckError: it fails, or does not end.
    """
    proof = series.folder / entry.proof
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _RUN, str(proof), str(root)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROOF_SECONDS,
            check=False,
        )
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, output = -1, f"it did not end within {PROOF_SECONDS} s"
    if status != 0:
        last = "".join(f"\n  | {line}" for line in output.strip().splitlines()[-6:])
        raise SpecdeckError(
            f"the patch {entry.id} does not work: its proof says so{last}",
            where=str(proof),
            fix=f"see what it expects: python3 '{proof}' '{root}'",
            exit_code=EXIT_FAILED,
        )


def refused(entry: Entry, found: Finding, tree: Folder | Changed, version: Version) -> SpecdeckError:
    """Return the error for a patch that does not apply."""
    lines = "".join(f"\n  {line}" for line in found.lines)
    fix = {
        "upstream": f"remove {entry.id} from engine.patches",
        "applied": "start from a vLLM as it was released: patches are applied once",
        "too early": f"take vLLM {entry.since} or later, or remove {entry.id} from engine.patches",
    }.get(found.status, f"take a vLLM from {entry.since} to before {entry.before}, or add a diff for this one")
    return SpecdeckError(
        f"the patch {entry.id} cannot be applied to vLLM {version}: {MEANS[found.status]}{lines}",
        where=tree.shown,
        fix=fix,
        exit_code=EXIT_FAILED,
    )


# -I keeps the caller's folder and variables out; the proof's own folder is what it imports its helper from.
_RUN = "import runpy, sys, os; sys.argv[:] = sys.argv[1:]; sys.path.insert(0, os.path.dirname(sys.argv[0])); " + (
    "sys.dont_write_bytecode = True; runpy.run_path(sys.argv[0], run_name='__main__')"
)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _write(root: Path, result: dict[str, bytes], moved: list[tuple[Path, bool]]) -> None:
    try:
        for name, raw in result.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = _beside(path, _PART)
            part.write_bytes(raw)
            if path.exists():
                part.chmod(path.stat().st_mode & 0o7777)
                _beside(path, _OLD).unlink(missing_ok=True)
                os.link(path, _beside(path, _OLD))
        for name in result:
            path = root / name
            moved.append((path, _beside(path, _OLD).exists()))
            _beside(path, _PART).replace(path)
    except OSError as error:
        raise SpecdeckError(
            f"a patched file cannot be written: {error.strerror}",
            where=str(error.filename or root),
            fix=f"check owner and space: ls -ld '{root}'; df -h '{root}'",
        ) from None


def _undo(moved: list[tuple[Path, bool]]) -> None:
    for path, existed in reversed(moved):
        if existed:
            if _beside(path, _OLD).exists():
                _beside(path, _OLD).replace(path)
        else:
            path.unlink(missing_ok=True)
