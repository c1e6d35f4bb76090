"""Findings as lines, equal ones of several cells said once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from specdeck.report.format import clean

if TYPE_CHECKING:
    from specdeck.stats.model import Summary


@dataclass(frozen=True)
class Line:
    """What was found, and in which cells or arm (empty for the whole run)."""

    severity: Literal["invalid", "warning"]
    where: str
    code: str
    message: str


def finding_lines(summary: Summary) -> list[Line]:
    """Invalid findings first; cells of one arm that say the same are joined."""
    joined: dict[tuple[str, str | None, str, str], list[str]] = {}
    for note in summary.findings:
        cells = joined.setdefault((note.severity, note.arm, note.code, note.message), [])
        if note.cell_id is not None:
            cells.append(note.cell_id)
    lines = [
        Line(
            severity="invalid" if severity == "invalid" else "warning",
            where=clean(" ".join([arm or "", ", ".join(cells)])),
            code=clean(code),
            message=clean(message),
        )
        for (severity, arm, code, message), cells in joined.items()
    ]
    return sorted(lines, key=lambda line: line.severity != "invalid")
