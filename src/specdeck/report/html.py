"""The report as one HTML page: nothing is loaded, nothing runs, it works light, dark, printed and on a phone."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from specdeck.report.charts.run import charts
from specdeck.report.definitions import DEFINITIONS
from specdeck.report.findings import finding_lines
from specdeck.report.format import clean
from specdeck.report.headline import headline
from specdeck.report.origin import origin
from specdeck.report.page_style import STYLE
from specdeck.report.tables import tables

if TYPE_CHECKING:
    from specdeck.report.table import Column, Table
    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_BRACKET = re.compile(r"(\[[^\[\]]*\])")


def render(run: Run, summary: Summary) -> str:
    """Return the whole page."""
    pictures = charts(summary)
    name = f"{clean(summary.recipe)}: {clean(summary.plan)}"
    body = [
        f'<p class="run">{_text(name)} · {_text(summary.created_at[:10])}</p>',
        f"<h1>{quiet_brackets(headline(summary))}</h1>",
    ]
    body.append(_findings(summary))
    body += [section(table, pictures.get(table.key, "")) for table in tables(summary)]
    body += [_timeline(pictures.get("timeline", "")), _definitions(), _origin(run)]
    return page(name, body)


def page(title: str, parts: list[str]) -> str:
    """A whole page around its parts; `title` is plain text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(table: Table, picture: str) -> str:
    """A table under its title, with a picture before it where there is one."""
    notice = f' <span class="notice">{_text(table.notice)}</span>' if table.notice else ""
    notes = "".join(f"<p>{_text(note)}</p>" for note in table.notes)
    heads = "".join(_head(column) for column in table.columns)
    rows = "".join(f"<tr>{_cells(table, row)}</tr>" for row in table.rows)
    return (
        f'<section aria-labelledby="{table.key}">\n<h2 id="{table.key}">{_text(table.title)}{notice}</h2>\n{picture}'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{table.key}">\n'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>\n</div>\n"
        + (f'<div class="notes">{notes}</div>\n' if notes else "")
        + "</section>"
    )


def _head(column: Column) -> str:
    below = f"<small>{_text(column.below)}</small>" if column.below else ""
    return f'<th scope="col"{_side(column)}>{_text(column.head)}{below}</th>'


def _cells(table: Table, row: tuple[str, ...]) -> str:
    first, *rest = (f"{_side(column)}>{_value(cell)}" for column, cell in zip(table.columns, row, strict=True))
    return f'<th scope="row"{first}</th>' + "".join(f"<td{cell}</td>" for cell in rest)


def _value(cell: str) -> str:
    """A figure, its bracket quieter and kept in one piece."""
    value, bracket, rest = cell.partition(" [")
    return (
        f'{_text(value)} <span class="range">[{_text(rest)}</span>' if bracket and rest.endswith("]") else _text(cell)
    )


def quiet_brackets(text: str) -> str:
    """Escaped text with its brackets in a quieter colour."""
    return _BRACKET.sub(r'<span class="range">\1</span>', _text(text))


def _side(column: Column) -> str:
    names = " ".join(name for name, there in (("text", column.text), ("wrap", column.wrap)) if there)
    return f' class="{names}"' if names else ""


def _timeline(figure: str) -> str:
    if not figure:
        return ""
    return f'<section aria-labelledby="timeline">\n<h2 id="timeline">The run</h2>\n{figure}</section>'


def _findings(summary: Summary) -> str:
    lines = finding_lines(summary)
    if not lines:
        return ""
    items = "".join(
        f'<li class="{line.severity}"><strong>{line.severity}</strong> {_text(line.where)} '
        f"<code>{_text(line.code)}</code> {_text(line.message)}</li>"
        for line in lines
    )
    return (
        '<section aria-labelledby="findings">\n<h2 id="findings">Findings</h2>\n'
        f'<ul class="findings">{items}</ul>\n</section>'
    )


def _definitions() -> str:
    items = "".join(f"<div><dt>{_text(term)}</dt><dd>{_text(text)}</dd></div>" for term, text in DEFINITIONS)
    return f"<section>\n<details open><summary>What the numbers mean</summary>\n<dl>{items}</dl></details>\n</section>"


def _origin(run: Run) -> str:
    items = "".join(
        f"<div><dt>{_text(label)}</dt><dd><code>{_text(value)}</code></dd></div>" for label, value in origin(run)
    )
    return f"<section>\n<details><summary>Where this was measured</summary>\n<dl>{items}</dl></details>\n</section>"


def _text(text: str) -> str:
    return escape(text, quote=True)
