"""The report as one HTML page: nothing is loaded, nothing runs, it works light, dark, printed and on a phone."""

from __future__ import annotations

import base64
import re
from html import escape
from typing import TYPE_CHECKING

from specdeck.report.definitions import DEFINITIONS
from specdeck.report.findings import finding_lines
from specdeck.report.format import clean
from specdeck.report.headline import headline
from specdeck.report.origin import origin
from specdeck.report.page_style import STYLE
from specdeck.report.pictures import PICTURES, Picture
from specdeck.report.plots import DARK, HEIGHT_IN, LIGHT, WIDTH_IN, draw
from specdeck.report.tables import tables

if TYPE_CHECKING:
    from specdeck.report.tables import Column, Table
    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_BRACKET = re.compile(r"(\[[^\[\]]*\])")
_ILLUSTRATES = {"acceptance": "positions", "throughput": "throughput"}


def render(run: Run, summary: Summary) -> str:
    """Return the whole page."""
    pictures = {_ILLUSTRATES[p.name]: p for p in PICTURES}
    name = f"{clean(summary.recipe)}: {clean(summary.plan)}"
    body = [
        f'<p class="run">{_text(name)} · {_text(summary.created_at[:10])}</p>',
        f"<h1>{quiet_brackets(headline(summary))}</h1>",
    ]
    for table in tables(summary):
        picture = pictures.get(table.key)
        body.append(section(table, _picture(picture, summary) if picture else ""))
    body += [_findings(summary), _definitions(), _origin(run)]
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


def _picture(picture: Picture, summary: Summary) -> str:
    light = draw(picture.name, summary, LIGHT, "svg")
    dark = draw(picture.name, summary, DARK, "svg")
    if light is None or dark is None:
        return ""
    return figure(light, dark, HEIGHT_IN, picture.alt(summary))


def figure(light: bytes, dark: bytes, height_in: float, alt: str) -> str:
    """An SVG for each colour scheme, its size given so that nothing moves while the page loads."""
    size = f'width="{round(WIDTH_IN * 100)}" height="{round(height_in * 100)}"'
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{_data(dark)}" {size}>'
        f'<img src="{_data(light)}" {size} alt="{_text(alt)}"></picture>\n'
    )


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


def _data(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _text(text: str) -> str:
    return escape(text, quote=True)
