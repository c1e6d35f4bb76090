"""Tables inside documents that are made from committed files, and the check that they still say what the files say.

A block is `<!-- specdeck tables: NAME [ARGUMENT] -->` … `<!-- end -->`, each marker a line of its own. NAME is
looked up in `MAKERS`; what stands between the markers is what its function returns. Whoever has a table to generate
adds a function here and a block to a document: `specdeck tables` fills it, `specdeck tables --check` and lint hold it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.report import perf
from specdeck.report.storage import storage_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Maker = Callable[[Path, str], str]

END = "<!-- end -->"
DOCUMENTS = ("*.md", "docs/*.md", "engines/*/*.md", "models/*/*.md", "docker/*.md")
_BEGIN = re.compile(r"<!-- specdeck tables: (?P<name>[a-z0-9-]+)(?: (?P<argument>\S.*?))? -->")


@dataclass(frozen=True)
class Block:
    """A block of a document: its marker's line number (from 1), and the lines that stand between the markers now."""

    line: int
    name: str
    argument: str
    lines: tuple[str, ...]


def run_table(root: Path, argument: str) -> str:
    """Headline, table, pictures and origin of a committed run; the argument is its folder relative to the checkout."""
    from specdeck.report.load import DAMAGED, load  # noqa: PLC0415 - only this table needs to read a whole run
    from specdeck.report.readme import snippet  # noqa: PLC0415

    run, summary = load(root / argument)
    for note in summary.findings:
        if note.code == DAMAGED:
            raise SpecdeckError(note.message, where=argument, fix=f"restore it: git checkout -- {argument}")
    return snippet(run, summary, argument)


def draft_length_table(root: Path, argument: str) -> str:
    """Acceptance lengths of a sweep beside those predicted from its longest draft; the argument is its file."""
    from specdeck.report.draft_length import table  # noqa: PLC0415

    return table(root / argument)


def published_figures(root: Path, _argument: str) -> str:
    """Everything in results/reference/published.yml."""
    from specdeck.report.markdown import escape, render_table  # noqa: PLC0415
    from specdeck.report.reference import SHIPPED, load_publications, published_table  # noqa: PLC0415

    table = published_table(load_publications(SHIPPED, root))
    return "\n".join((render_table(table), "", *(f"- {escape(note)}" for note in table.notes)))


def planner_pools(root: Path, _argument: str) -> str:
    """The planner's KV pools beside published ones."""
    from specdeck.planner.accuracy import pool_table  # noqa: PLC0415

    return pool_table(root)


def planner_weights(root: Path, _argument: str) -> str:
    """The planner's weights of one GPU beside published ones."""
    from specdeck.planner.accuracy import weight_table  # noqa: PLC0415

    return weight_table(root)


MAKERS: Mapping[str, Maker] = {
    "draft-length": draft_length_table,
    "run": run_table,
    "perf-machine": perf.machine,
    "perf-clients": perf.client_table,
    "perf-goals": perf.goal_table,
    "perf-wide": perf.wide,
    "published": published_figures,
    "planner-pools": planner_pools,
    "planner-weights": planner_weights,
    "storage": storage_table,
}


def documents(root: Path) -> list[Path]:
    """The documents of a checkout that may have blocks, sorted."""
    return sorted(path for pattern in DOCUMENTS for path in root.glob(pattern) if path.is_file())


def blocks(text: str, where: str) -> list[Block]:
    """All blocks of a document.

    Raises:
        SpecdeckError: a marker without its partner, or a name that nobody makes; file and line are named.
    """
    found: list[Block] = []
    lines = text.split("\n")
    start: int | None = None
    for number, line in enumerate(lines):
        if _BEGIN.fullmatch(line):
            if start is not None:
                raise _unpaired(where, start)
            start = number
        elif line == END:
            if start is None:
                raise SpecdeckError("this block ends without a beginning", where=f"{where}:{number + 1}", fix=_FIX)
            found.append(_block(lines, start, number, where))
            start = None
    if start is not None:
        raise _unpaired(where, start)
    return found


def filled(root: Path, path: Path, makers: Mapping[str, Maker] = MAKERS) -> tuple[str, str, list[Block]]:
    """Make a document's blocks again.

    Returns:
        The document as it is, as it should be, and the blocks that differ.

    Raises:
        SpecdeckError: the document cannot be read, a marker is wrong, or what a block is made from cannot be read.
    """
    where = path.relative_to(root).as_posix()
    try:
        old = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecdeckError(
            f"the document cannot be read: {error}", where=where, fix="restore it: git checkout"
        ) from error
    lines, drifted = old.split("\n"), []
    for block in reversed(blocks(old, where)):
        if block.name not in makers:
            raise SpecdeckError(
                f"nobody makes a table called {block.name!r}",
                where=f"{where}:{block.line}",
                fix=f"use one of: {', '.join(sorted(makers))}",
            )
        made = makers[block.name](root, block.argument).strip("\n").split("\n")
        if made != [*block.lines]:
            drifted.append(block)
            lines[block.line : block.line + len(block.lines)] = made
    return old, "\n".join(lines), drifted[::-1]


_FIX = f"put `<!-- specdeck tables: NAME -->` before it and `{END}` after it, each on a line of its own"


def _block(lines: list[str], start: int, end: int, where: str) -> Block:
    match = _BEGIN.fullmatch(lines[start])
    assert match, where
    return Block(start + 1, match["name"], match["argument"] or "", tuple(lines[start + 1 : end]))


def _unpaired(where: str, start: int) -> SpecdeckError:
    return SpecdeckError("this block has no end", where=f"{where}:{start + 1}", fix=_FIX)
