"""A comparison as a pull-request comment: one hidden marker to find it by, detail collapsed, bounded in size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.compare import words
from specdeck.report.markdown import escape, render_table

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome
    from specdeck.report.table import Table

MARKER = "<!-- specdeck comparison: {gates} -->"
LIMIT = 65_536
"""Characters a comment may have on GitHub."""
CUT = "\n\nThe rest did not fit into a comment; the whole comparison is in `comparison.html`.\n"


def render(outcome: Outcome) -> str:
    """Return the comment. Whole sections are left out from the end where it would be too long."""
    parts = [
        MARKER.format(gates=escape(outcome.gate_file)),
        f"### specdeck\n\n**{escape(words.headline(outcome))}**",
        render_table(words.gates(outcome)),
    ]
    warnings = words.warnings(outcome)
    if warnings:
        parts.append("\n".join(f"- ⚠ {escape(line)}" for line in warnings))
    details = [f"- {escape(gate.name)}: {escape(line)}" for gate in outcome.gates for line in gate.details]
    if details:
        parts.append(_collapsed("What decided the gates", "\n".join(details)))
    tables = [words.effects(outcome), words.positions(outcome), words.environment(outcome)]
    parts += [_section(table) for table in tables if table.rows]
    return _fit(parts)


def _section(table: Table) -> str:
    title = f"{table.title} ({table.notice})" if table.notice else table.title
    notes = "".join(f"\n\n{escape(note)}" for note in table.notes)
    return _collapsed(title, render_table(table) + notes)


def _collapsed(title: str, body: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n\n{body}\n\n</details>"


def _fit(parts: list[str]) -> str:
    text = "\n\n".join(parts) + "\n"
    kept = list(parts)
    while len(text) > LIMIT and len(kept) > 2:
        kept.pop()
        text = "\n\n".join(kept) + CUT
    return text if len(text) <= LIMIT else text[: LIMIT - len(CUT)] + CUT
