"""The table of a committed run for a README; `specdeck tables` puts it there (generated.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import MISSING, clean, count, milliseconds, percent, ratio, with_interval, with_spread
from specdeck.report.headline import headline
from specdeck.report.markdown import escape, render_table
from specdeck.report.origin import one_line
from specdeck.report.pictures import PICTURES
from specdeck.report.table import CI, ROUNDS, Column, Table
from specdeck.results.kind import require_measured

if TYPE_CHECKING:
    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary


def snippet(run: Run, summary: Summary, folder: str | None = None) -> str:
    """Headline, one table, notice, pictures and origin, as Markdown.

    Args:
        run: the run, for its origin.
        summary: its figures.
        folder: where the run lies relative to the README, for the pictures; None leaves them out.

    Raises:
        SpecdeckError: the run's acceptance is synthetic.
    """
    require_measured(run, "a table of measured results")
    baseline = clean(summary.baseline) if summary.baseline else "baseline"
    table = Table(
        key="readme",
        title="",
        columns=(
            Column("arm", text=True),
            Column("concurrency"),
            Column("output tok/s", ROUNDS),
            Column(f"ratio to {baseline}", CI),
            Column("acceptance length", CI),
            Column("drafts accepted"),
            Column("TTFT p50, ms"),
            Column("TPOT p50, ms"),
            Column("requests"),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                with_spread(row.output_tok_s),
                ratio(row.ratio) if summary.baseline else MISSING,
                with_interval(row.acceptance.length),
                percent(row.acceptance.draft_acceptance_rate),
                milliseconds(row.ttft_s.p50),
                milliseconds(row.tpot_s.p50),
                count(row.requests),
            )
            for row in summary.rows
        ),
    )
    parts = [escape(headline(summary)), render_table(table)]
    if summary.throughput_notice:
        parts.append(f"Throughput and times: **{escape(summary.throughput_notice)}**.")
    if folder is not None:
        shown = [p for p in PICTURES if p.name == "throughput" or any(arm.positions for arm in summary.arms)]
        parts += [f"![{escape(p.alt(summary))}]({folder}/{p.file})" for p in shown if summary.rows]
    parts.append(f"Measured on {escape(one_line(run))}")
    return "\n\n".join(parts) + "\n"
