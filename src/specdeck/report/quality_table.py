"""What quality checks said about the arms of a run, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import clean, count, significant
from specdeck.report.table import CI, Column, Table

if TYPE_CHECKING:
    from specdeck.results.quality import CheckResult
    from specdeck.stats.model import Summary


def quality(summary: Summary) -> Table:
    """A row for each check and arm, the failed ones first; no row where no check was made."""
    order = {"fail": 0, "unmeasurable": 1, "pass": 2}
    checks = sorted(summary.quality, key=lambda check: order[check.verdict])
    return Table(
        key="quality",
        title="Quality checks",
        columns=(
            Column("check", text=True),
            Column("arm", text=True),
            Column("verdict", text=True),
            Column("value", CI),
            Column("reference"),
            Column("n"),
            Column("reason", text=True, wrap=True),
        ),
        rows=tuple(
            (
                clean(check.check),
                clean(check.arm),
                check.verdict,
                _value(check),
                significant(check.reference),
                count(check.n),
                clean(check.reason or ""),
            )
            for check in checks
        ),
        notes=("unmeasurable: the check could not be made; that is no pass. What each check means: docs/quality.md.",),
    )


def _value(check: CheckResult) -> str:
    text = significant(check.value) + (f" {clean(check.unit, 40)}" if check.unit and check.value is not None else "")
    if check.value is None or check.interval is None:
        return text
    return f"{text} [{significant(check.interval[0])}–{significant(check.interval[1])}]"
