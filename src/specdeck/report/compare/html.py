"""A comparison as one HTML page that loads nothing: verdict, gates, forest plot, tables, environment of both sides."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from specdeck.report.charts.comparison import acceptance, forest
from specdeck.report.compare import words
from specdeck.report.html import page, quiet_brackets, section

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome


def render(outcome: Outcome) -> str:
    """Return the whole page."""
    title = f"{outcome.candidate.name} against {outcome.base.name}"
    warnings = "".join(
        f'<li class="warning"><strong>warning</strong> {escape(line)}</li>' for line in words.warnings(outcome)
    )
    parts = [
        f'<p class="run">specdeck comparison · {escape(outcome.candidate.created_at[:10])}</p>',
        f"<h1>{quiet_brackets(words.headline(outcome))}</h1>",
        f'<section><ul class="findings">{warnings}</ul></section>' if warnings else "",
        section(words.gates(outcome), ""),
        _details(outcome),
        section(words.effects(outcome), forest(outcome)) if outcome.comparison.effects else "",
    ]
    pictured = ((words.positions(outcome), acceptance(outcome)), (words.environment(outcome), ""))
    parts += [section(table, picture) for table, picture in pictured if table.rows]
    return page(title, parts)


def _details(outcome: Outcome) -> str:
    lines = [f"{gate.name}: {line}" for gate in outcome.gates for line in gate.details]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if not items:
        return ""
    return f"<section>\n<details><summary>What decided the gates</summary>\n<ul>{items}</ul></details>\n</section>"
