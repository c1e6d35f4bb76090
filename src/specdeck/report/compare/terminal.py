"""A comparison on a console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.gates.outcome import verdict
from specdeck.report.compare import words
from specdeck.report.terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from specdeck.gates.outcome import Outcome

_STYLES = {"pass": "bold green", "fail": "bold red", "unmeasurable": "bold yellow"}


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print the headline, gates, effects and warnings."""
    print_line(console, words.headline(outcome), _STYLES[verdict(outcome)])
    for line in words.warnings(outcome):
        print_line(console, f"warning: {line}", "yellow")
    tables = [words.gates(outcome), words.effects(outcome), words.positions(outcome), words.environment(outcome)]
    for table in tables:
        if table.rows:
            console.print()
            print_table(console, table)
    for gate in outcome.gates:
        for line in gate.details if gate.verdict != "pass" else ():
            print_line(console, f"{gate.name}: {line}", "dim")
