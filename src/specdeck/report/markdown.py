"""The report as Markdown that reads well on a code host. Foreign text is escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from specdeck.report.definitions import DEFINITIONS
from specdeck.report.findings import finding_lines
from specdeck.report.format import clean
from specdeck.report.headline import headline
from specdeck.report.origin import origin
from specdeck.report.pictures import PICTURES
from specdeck.report.tables import tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from specdeck.report.table import Table
    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary

_SPECIAL = re.compile(r"([\\`*|~]|^#|(?<!\w)_|_(?!\w)|\](?=[(\[:])|!(?=\[))")


def escape(text: str) -> str:
    """Make text mean itself in Markdown and in the HTML that Markdown allows.

    What means nothing where it stands (an underscore inside a word, the brackets of an interval) stays as it is.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text)


def render(run: Run, summary: Summary, pictures: Collection[str] = ()) -> str:
    """Return report.md. `pictures` names the image files that lie beside it."""
    parts = [f"# {escape(clean(summary.recipe))}: {escape(clean(summary.plan))}", escape(headline(summary))]
    parts += [render_section(table) for table in tables(summary)]
    for picture in PICTURES:
        if picture.file in pictures:
            parts.append(f"![{escape(picture.alt(summary))}]({picture.file})")
    found = finding_lines(summary)
    if found:
        lines = "\n".join(
            f"- {line.severity} {escape(line.where)} `{_code(line.code)}`: {escape(line.message)}" for line in found
        )
        parts += ["## Findings", lines]
    parts += [
        "## What the numbers mean",
        "\n".join(f"- **{escape(term)}**: {escape(text)}" for term, text in DEFINITIONS),
    ]
    parts += ["## Origin", "\n".join(f"- {escape(label)}: `{_code(value)}`" for label, value in origin(run))]
    return "\n\n".join(parts) + "\n"


def render_section(table: Table) -> str:
    """A table under its title, with its notes."""
    notes = "\n".join(f"- {escape(note)}" for note in table.notes)
    return "\n\n".join(part for part in (f"## {escape(_title(table))}", render_table(table), notes) if part)


def render_table(table: Table) -> str:
    """A Markdown table; what brackets mean stands under the head in the same cell."""
    heads = [escape(c.head) + (f"<br>{escape(c.below)}" if c.below else "") for c in table.columns]
    sides = [":--" if c.text else "--:" for c in table.columns]
    lines = [heads, sides, *([escape(cell) for cell in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _title(table: Table) -> str:
    return f"{table.title} ({table.notice})" if table.notice else table.title


def _code(text: str) -> str:
    return text.replace("`", "'")
