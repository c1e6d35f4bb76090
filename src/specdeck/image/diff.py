"""Reads unified diffs and applies them exactly: at the line they name, with no fuzz and no offset.

A patch that does not fit is told apart hunk by hunk: what it expected, and what is there now. Text files only; a file
may be changed or created, not deleted or renamed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from specdeck.errors import SpecdeckError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PATH = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*")
_NO_NEWLINE = "\\ No newline at end of file"
# Not str.splitlines, which also ends lines at form feeds and the like.
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Hunk:
    """One place of a file.

    Attributes:
        start: first line it concerns, from 1; 0 in a file that is created.
        before, after: the lines there, each with its newline.
    """

    start: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class FileDiff:
    """What a diff does to one file; `creates`: the file must not exist yet."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False


@dataclass(frozen=True)
class Mismatch:
    """A hunk that does not fit.

    Attributes:
        hunk: its number in the file's diff, from 1.
        line: the line, from 1, where hunk and file first differ.
        expected, found: that line; None: the file ends before it.
        elsewhere: line, from 1, at which the whole hunk stands instead; None: nowhere, or at several places.
    """

    hunk: int
    line: int
    expected: str
    found: str | None
    elsewhere: int | None


def parse(text: str, where: str) -> tuple[FileDiff, ...]:
    """Read a unified diff.

    Args:
        text: the diff.
        where: how messages name it.

    Raises:
        SpecdeckError: it is no unified diff, deletes or renames a file, or names a path that is not relative.
    """
    files: list[FileDiff] = []
    lines = _LINES.findall(text)
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("rename ", "deleted file", "GIT binary", "Binary files", "copy ", "old mode")):
            _refuse(f"it does more than change text: {line.strip()!r}", where, at)
        if not line.startswith("--- "):
            if line.startswith("@@"):
                _refuse("a hunk stands before the file it belongs to", where, at)
            at += 1
            continue
        if at + 1 >= len(lines) or not lines[at + 1].startswith("+++ "):
            _refuse("a line with --- has no line with +++ after it", where, at)
        old, new = (_name(lines[at + offset], where, at + offset) for offset in (0, 1))
        if new is None or (old is not None and old != new):
            _refuse("it deletes or renames a file", where, at)
        assert new is not None
        at += 2
        hunks: list[Hunk] = []
        while at < len(lines) and lines[at].startswith("@@"):
            hunk, at = _hunk(lines, at, where)
            hunks.append(hunk)
        if not hunks:
            _refuse(f"it changes nothing in {new}", where, at)
        files.append(FileDiff(new, tuple(hunks), creates=old is None))
    if not files:
        _refuse("there is no file in it", where, 0)
    if len({file.path for file in files}) != len(files):
        _refuse("a file stands in it twice", where, 0)
    return tuple(files)


def apply(diff: FileDiff, text: str) -> str | list[Mismatch]:
    """Return the text with all hunks applied, or every hunk that does not fit."""
    lines = _LINES.findall(text)
    wrong = [found for number, hunk in enumerate(diff.hunks, 1) if (found := _mismatch(number, hunk, lines))]
    if wrong:
        return wrong
    result: list[str] = []
    at = 0
    for hunk in diff.hunks:
        start = _index(hunk)
        result += lines[at:start]
        result += hunk.after
        at = start + len(hunk.before)
    return "".join(result + lines[at:])


def _index(hunk: Hunk) -> int:
    # Of a hunk without old lines, `start` is the line after which the new ones go.
    return hunk.start - 1 if hunk.before else hunk.start


def _mismatch(number: int, hunk: Hunk, lines: list[str]) -> Mismatch | None:
    start = _index(hunk)
    if tuple(lines[start : start + len(hunk.before)]) == hunk.before:
        return None
    places = [
        at for at in range(len(lines) - len(hunk.before) + 1) if tuple(lines[at : at + len(hunk.before)]) == hunk.before
    ]
    for offset, expected in enumerate(hunk.before):
        found = lines[start + offset] if start + offset < len(lines) else None
        if found != expected:
            elsewhere = places[0] + 1 if len(places) == 1 else None
            return Mismatch(number, start + offset + 1, expected, found, elsewhere)
    raise AssertionError("a hunk that differs has a line that differs")


def _name(line: str, where: str, at: int) -> str | None:
    """Return the path of a --- or +++ line without its `a/` or `b/`; None for /dev/null."""
    name = line[4:].split("\t", 1)[0].rstrip("\r\n")
    if name == "/dev/null":
        return None
    name = name.removeprefix("a/" if line.startswith("---") else "b/")
    if not _PATH.fullmatch(name):
        _refuse(f"{name!r} is not a plain relative path", where, at)
    return name


def _hunk(lines: list[str], at: int, where: str) -> tuple[Hunk, int]:
    head = _HUNK.match(lines[at])
    if head is None:
        _refuse("a hunk has no right head", where, at)
    counts = [int(head.group(group) or 1) if head.group(group) is not None else 1 for group in (2, 4)]
    start, (olds, news) = int(head.group(1)), counts
    before: list[str] = []
    after: list[str] = []
    first = at
    at += 1
    while len(before) < olds or len(after) < news:
        if at >= len(lines):
            _refuse("a hunk ends too early", where, first)
        sign, rest = lines[at][:1], lines[at][1:]
        if sign not in " +-":
            _refuse("a line of a hunk begins with none of: space, +, -", where, at)
        ends = at + 1 < len(lines) and lines[at + 1].startswith(_NO_NEWLINE)
        content = rest.removesuffix("\n") if ends else rest
        if sign in " -":
            before.append(content)
        if sign in " +":
            after.append(content)
        at += 2 if ends else 1
    if (len(before), len(after)) != (olds, news):
        _refuse("a hunk has more lines than its head says", where, first)
    if before and before == after:
        _refuse("a hunk changes nothing", where, first)
    return Hunk(start, tuple(before), tuple(after)), at


def _refuse(what: str, where: str, index: int) -> NoReturn:
    raise SpecdeckError(
        f"this is no diff that can be applied: {what}",
        where=f"{where}:{index + 1}",
        fix="write it with: diff -u a/FILE b/FILE",
    )
