"""A comparison as one HTML page that loads nothing: verdict, gates, forest plot, tables, environment of both sides."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from specdeck.report.compare import words
from specdeck.report.compare.forest import forest, forest_height
from specdeck.report.html import figure, page, quiet_brackets, section
from specdeck.report.plots import DARK, LIGHT

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
        section(words.effects(outcome), _forest(outcome)) if outcome.comparison.effects else "",
    ]
    parts += [section(table, "") for table in (words.positions(outcome), words.environment(outcome)) if table.rows]
    return page(title, parts)


def _details(outcome: Outcome) -> str:
    lines = [f"{gate.name}: {line}" for gate in outcome.gates for line in gate.details]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if not items:
        return ""
    return f"<section>\n<details><summary>What decided the gates</summary>\n<ul>{items}</ul></details>\n</section>"


def _forest(outcome: Outcome) -> str:
    light, dark = forest(outcome, LIGHT), forest(outcome, DARK)
    if light is None or dark is None:
        return ""
    rows = [e for e in outcome.comparison.effects if e.kind == "ratio" and e.value is not None]
    alt = "Ratios of candidate to base: " + "; ".join(f"{words.label(e)} {words.change(e)}, {e.verdict}" for e in rows)
    return figure(light, dark, forest_height(outcome), alt)
