"""The summary on a console: rich tables on a terminal, aligned plain lines everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text

from specdeck.report.findings import finding_lines
from specdeck.report.headline import headline
from specdeck.report.tables import tables

if TYPE_CHECKING:
    from rich.console import Console

    from specdeck.report.table import Table
    from specdeck.stats.model import Summary


def print_summary(summary: Summary, console: Console) -> None:
    """Print the headline, every table, and the findings."""
    print_line(console, headline(summary), "bold")
    for table in tables(summary):
        console.print()
        print_table(console, table)
    found = finding_lines(summary)
    if found:
        console.print()
        print_line(console, "Findings", "bold")
    for line in found:
        where = f" {line.where}" if line.where else ""
        style = "red" if line.severity == "invalid" else "yellow"
        print_line(console, f"{line.severity}{where} {line.code}: {line.message}", style)


def print_table(console: Console, table: Table) -> None:
    """Print a table with its title and notes."""
    print_line(console, title(table), "bold")
    if console.is_terminal:
        console.print(_rich(table))
    else:
        for text in plain_table(table):
            print_line(console, text)
    for note in table.notes:
        print_line(console, note, "dim")


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line; off a terminal without style and never broken."""
    plain = not console.is_terminal
    console.print(Text(text, style="" if plain else style), soft_wrap=plain)


def title(table: Table) -> str:
    """A table's title with its notice."""
    return f"{table.title} ({table.notice})" if table.notice else table.title


def plain_table(table: Table) -> list[str]:
    """Columns aligned by spaces, two lines of head, no lines drawn."""
    heads = [tuple(c.head for c in table.columns)]
    if any(c.below for c in table.columns):
        heads.append(tuple(c.below for c in table.columns))
    lines = [*heads, *table.rows]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(table.columns))]
    return [
        "  ".join(_pad(line[i], widths[i], table.columns[i].text) for i in range(len(widths))).rstrip()
        for line in lines
    ]


def _pad(text: str, width: int, left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if left else space + text


def _rich(table: Table) -> RichTable:
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True, show_edge=False)
    for column in table.columns:
        head = Text(column.head, style="bold")
        if column.below:
            head.append(f"\n{column.below}", style="not bold dim")
        made.add_column(head, justify="left" if column.text else "right", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(cell) for cell in row))
    return made
