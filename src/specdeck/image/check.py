"""Says for each patch where it stands with a vLLM: it applies, upstream has it, vLLM drifted. Writes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from specdeck.image.diff import Mismatch, apply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.image.diff import FileDiff
    from specdeck.image.series import Diff, Drop, Entry, Series
    from specdeck.image.tree import Tree

Status = Literal["applies", "applied", "upstream", "drifted", "too early", "absent"]
MAX_LINES = 6
MEANS: dict[Status, str] = {
    "applies": "every file is the expected one and every hunk fits",
    "applied": "the files are those with the patch",
    "upstream": "vLLM has it: drop the patch",
    "drifted": "vLLM's files are not those that the patch was written for",
    "too early": "this version is older than the patch is for",
    "absent": "this vLLM has not the file that the patch changes",
}


@dataclass(frozen=True)
class Finding:
    """Where a patch stands.

    Attributes:
        id: the patch.
        status: one word; MEANS says what it stands for.
        lines: details for people.
        alarm: upstream moved in a way that the series does not know.
        diff: the diff that fits, when it applies or is applied.
        result: the files with the patch, when it applies.
    """

    id: str
    status: Status
    lines: tuple[str, ...] = ()
    alarm: bool = False
    diff: Diff | None = None
    result: dict[str, bytes] = field(default_factory=dict)


def examine(series: Series, tree: Tree, version: Version, entries: Iterable[Entry] | None = None) -> list[Finding]:
    """Examine patches against a vLLM as it is, each by itself.

    Args:
        series: the patches.
        tree: the vLLM.
        version: what it is, without a local part.
        entries: those to look at; None: all.
    """
    return [examine_one(series, entry, tree, version) for entry in (series.entries if entries is None else entries)]


def examine_one(series: Series, entry: Entry, tree: Tree, version: Version) -> Finding:
    """Examine one patch."""
    present = {path: tree.read(path) for diff in entry.diffs for path in diff.files}
    hashes = {path: hashlib.sha256(raw).hexdigest() if raw is not None else None for path, raw in present.items()}
    for diff in entry.diffs:
        if all(hashes[path] == content.after for path, content in diff.files.items()):
            return Finding(entry.id, "applied", (diff.file,), diff=diff)
    gone = detected(entry.drop, tree)
    if version >= Version(entry.before):
        if gone:
            return Finding(entry.id, "upstream", (f"not for {entry.before} and later; {seen(entry.drop)}",))
        said = f"the series says that upstream has it from {entry.before}; but {unseen(entry.drop, tree)}"
        return Finding(entry.id, "drifted", (said,), alarm=True)
    if version < Version(entry.since):
        return Finding(entry.id, "too early", (f"it is for {entry.since} and later",))
    for diff in entry.diffs:
        if all(hashes[path] == content.before for path, content in diff.files.items()):
            return _dry_run(series, entry, diff, present)
    if gone:
        said = f"{seen(entry.drop)}, earlier than the {entry.before} that the series names"
        return Finding(entry.id, "upstream", (said, "Fix: set `before` in the series"), alarm=True)
    diff = nearest_diff(entry, version, hashes)
    missing = [path for path, content in diff.files.items() if content.before is not None and present[path] is None]
    if missing:
        return Finding(entry.id, "absent", tuple(f"there is no {path}" for path in missing))
    return Finding(entry.id, "drifted", tuple(_drift(series, diff, present, hashes)), alarm=True)


def detected(drop: Drop, tree: Tree) -> bool:
    """Whether vLLM's files show that the patch is no longer needed."""
    raw = tree.read(drop.file)
    if raw is None:
        return False
    text = raw.decode("utf-8", "replace")
    return drop.contains in text if drop.contains is not None else (drop.lacks or "") not in text


def seen(drop: Drop) -> str:
    """Say what shows that the patch is no longer needed."""
    return f"{drop.file} {'contains' if drop.contains is not None else 'lacks'} {drop.contains or drop.lacks!r}"


def unseen(drop: Drop, tree: Tree) -> str:
    """Say what is missing for that."""
    if tree.read(drop.file) is None:
        return f"there is no {drop.file}"
    return f"{drop.file} {'lacks' if drop.contains is not None else 'contains'} {drop.contains or drop.lacks!r}"


def nearest_diff(entry: Entry, version: Version, hashes: dict[str, str | None]) -> Diff:
    """Return the diff to explain a drift with: most files as expected, then the nearest release below or at it."""

    def rank(diff: Diff) -> tuple[int, Version]:
        same = sum(hashes[path] == content.before for path, content in diff.files.items())
        below = [release for text in diff.releases if (release := Version(text)) <= version]
        return same, max(below, default=Version("0"))

    return max(entry.diffs, key=rank)


def _dry_run(series: Series, entry: Entry, diff: Diff, present: dict[str, bytes | None]) -> Finding:
    result: dict[str, bytes] = {}
    for file in series.diffs[diff.file]:
        text = apply(file, (present[file.path] or b"").decode("utf-8"))
        if isinstance(text, list):
            lines = [line for wrong in text for line in _hunk(file, wrong)]
            return Finding(entry.id, "drifted", ("the diff does not fit its own files", *lines), alarm=True)
        result[file.path] = text.encode("utf-8")
        found = hashlib.sha256(result[file.path]).hexdigest()
        if found != diff.files[file.path].after:
            said = f"the diff makes another {file.path} than the series says: {found}"
            return Finding(entry.id, "drifted", (said,), alarm=True)
    return Finding(entry.id, "applies", (diff.file,), diff=diff, result=result)


def _drift(
    series: Series, diff: Diff, present: dict[str, bytes | None], hashes: dict[str, str | None]
) -> Iterable[str]:
    yield f"compared with {diff.file} ({', '.join(diff.releases) or diff.source}):"
    for file in series.diffs[diff.file]:
        expected = diff.files[file.path].before
        if hashes[file.path] == expected:
            continue
        if hashes[file.path] == diff.files[file.path].after:
            yield f"{file.path}: patched already, and another file is not: install vLLM again"
            continue
        if file.creates:
            yield f"{file.path}: exists, and the patch creates it"
            continue
        yield f"{file.path}: SHA-256 {hashes[file.path]}, expected {expected}"
        text = apply(file, (present[file.path] or b"").decode("utf-8", "replace"))
        if isinstance(text, str):
            yield "  every hunk fits: the file changed elsewhere; read it, then add a diff for it to the series"
            continue
        shown = [line for wrong in text for line in _hunk(file, wrong)]
        yield from shown[: MAX_LINES * 2]


def _hunk(file: FileDiff, wrong: Mismatch) -> list[str]:
    lines = [
        f"  hunk {wrong.hunk} of {len(file.hunks)} at line {wrong.line}:",
        f"    expected: {wrong.expected.rstrip()}",
        f"    is now:   {'(the file ends)' if wrong.found is None else wrong.found.rstrip()}",
    ]
    if wrong.elsewhere is not None:
        lines[0] = f"  hunk {wrong.hunk} of {len(file.hunks)} moved to line {wrong.elsewhere}; at line {wrong.line}:"
    return lines
