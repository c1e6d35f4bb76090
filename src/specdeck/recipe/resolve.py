"""Follows `extends` and merges: later files win, mappings merge by key, anything else is replaced.

A null takes an inherited key away; where nothing is inherited it stays null and the model decides.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.recipe.yamlfile import Document, KeyPath, Mark, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_EXTENDS_DEPTH = 8
MAX_FILES = 64


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the known names most like `word`, best first; empty when nothing is alike."""
    known = sorted(known)
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), lowered, n=count, cutoff=0.5)
    begins = [low for low in lowered if word and low.startswith(word.lower()) and low not in found]
    return [lowered[low] for low in [*found, *begins]][:count]


def resolve_file(path: Path, folder: Path, root: Path) -> Document:
    """Read a file with everything it extends, merged.

    Args:
        path: the file.
        folder: what `extends` names are relative to.
        root: the checkout, so that messages show short paths.

    Raises:
        SpecdeckError: a file is missing or wrong, extends itself, or the chain is too long.
    """
    return _Resolver(folder, root).resolve(path, ())


class _Resolver:
    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.files = 0

    def resolve(self, path: Path, chain: tuple[Path, ...]) -> Document:
        shown = display(path, self.root)
        real = path.resolve()
        self.files += 1
        if real in chain:
            loop = " → ".join(display(p, self.root) for p in (*chain[chain.index(real) :], real))
            raise SpecdeckError(f"`extends` goes in a circle: {loop}", where=shown, fix="remove one of these `extends`")
        if len(chain) >= MAX_EXTENDS_DEPTH or self.files > MAX_FILES:
            raise SpecdeckError(
                f"`extends` is more than {MAX_EXTENDS_DEPTH} levels deep or names more than {MAX_FILES} files",
                where=shown,
                fix="flatten the bases",
            )
        own = read_yaml(path, shown)
        mark = own.marks.get(("extends",), Mark(shown, 1))
        names = own.data.pop("extends", None)
        merged = Document({})
        for name in self.names(names, mark):
            _merge(merged, self.resolve(self.find(name, mark), (*chain, real)))
        _merge(merged, own)
        return merged

    def names(self, value: Any, mark: Mark) -> list[str]:
        names = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(name, str) for name in names):
            raise SpecdeckError(
                f"`extends` must be a name or a list of names, not {value!r}",
                where=str(mark),
                fix="write `extends: bases/qwen3.8-27b` or `extends: [bases/a, bases/b]`",
            )
        return names

    def find(self, name: str, mark: Mark) -> Path:
        path = self.folder / f"{name.removesuffix('.yml')}.yml"
        inside = path.resolve().is_relative_to(self.folder.resolve())
        if inside and path.is_file():
            return path
        known = [p.relative_to(self.folder).as_posix().removesuffix(".yml") for p in sorted(self.folder.rglob("*.yml"))]
        close = nearest(name, known)
        raise SpecdeckError(
            f"`extends` names {name!r}, which is not a file below {display(self.folder, self.root)}",
            where=f"{mark}, key extends",
            fix=f"use {' or '.join(close)}" if close else f"known: {', '.join(known[:20]) or 'none'}",
        )


def display(path: Path, root: Path) -> str:
    """Show a path relative to the checkout when it is inside."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(path)


def _merge(base: Document, over: Document) -> None:
    base.data = _merged(base.data, over.data, (), base.marks)
    base.marks.update({path: mark for path, mark in over.marks.items() if path[:1] != ("extends",)})


def _merged(base: dict[str, Any], over: dict[str, Any], path: KeyPath, marks: dict[KeyPath, Mark]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        here = (*path, key)
        old = result.get(key)
        if isinstance(value, dict):
            result[key] = _merged(old if isinstance(old, dict) else {}, value, here, marks)
            continue
        for known in [p for p in marks if p[: len(here)] == here]:
            del marks[known]
        if value is None and key in result:
            del result[key]
        else:
            result[key] = value
    return result
