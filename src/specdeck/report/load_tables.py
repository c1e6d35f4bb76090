"""Tables about the load itself: goodput, stages, knees. Each has rows only where the plan asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import clean, count, percent, percent_interval, significant, with_interval
from specdeck.report.table import CI, Column, Table, median, p99

if TYPE_CHECKING:
    from specdeck.stats.model import Summary


def goodput(summary: Summary) -> Table:
    """Requests that met the plan's limits; no row where it sets none."""
    limits = ", ".join(f"{key.upper()} ≤ {value:g} ms" for key, value in summary.goodput_limits_ms.items())
    heads = (Column("arm", text=True), Column("conc."), Column("good requests/s"), Column("good", CI))
    return Table(
        key="goodput",
        title=f"Goodput: {limits}",
        notice=summary.throughput_notice,
        columns=(*heads, Column("requests")),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                significant(row.goodput.req_s),
                percent_interval(row.goodput.share),
                count(row.goodput.requests),
            )
            for row in summary.rows
            if row.goodput is not None
        ),
    )


def stages(summary: Summary) -> Table:
    """The stages of an open loop: what was asked for, how it was answered."""
    heads = (Column("arm", text=True), Column("stage"), Column("requests/s", "asked for"), Column("output tok/s"))
    times = (Column("TTFT p50, ms", CI), Column("TTFT p99, ms"), Column("TPOT p50, ms", CI), Column("waited p99, ms"))
    return Table(
        key="stages",
        title="Stages of the load",
        notice=summary.throughput_notice,
        columns=(*heads, *times, Column("acceptance length", CI), Column("good"), Column("requests")),
        rows=tuple(
            (
                clean(row.arm),
                count(row.stage),
                f"{row.request_rate:g}" + (f" to {row.to_request_rate:g}" * (row.to_request_rate != row.request_rate)),
                significant(row.output_tok_s),
                median(row.ttft_s),
                p99(row.ttft_s),
                median(row.tpot_s),
                significant(row.queue_p99_ms),
                with_interval(row.acceptance_length),
                percent(row.goodput.share.value if row.goodput else None),
                f"{row.requests} (+{row.failed} failed)" if row.failed else count(row.requests),
            )
            for row in summary.stages
        ),
        notes=("A request counts in the stage it was due in; waited: in this client, for a place.",),
    )


def knees(summary: Summary) -> Table:
    """Where an arm's output tok/s stops growing, with at least three concurrencies."""
    heads = (Column("arm", text=True), Column("knee at conc."), Column("output tok/s"), Column("highest", "at conc."))
    return Table(
        key="knee",
        title="Knee: the smallest concurrency with 95 % of the highest output tok/s",
        notice=summary.throughput_notice,
        columns=(*heads, Column("within limits", "up to conc.")),
        rows=tuple(
            (
                clean(item.arm),
                count(item.concurrency) if item.bounded else f"{item.concurrency} or more",
                significant(item.output_tok_s),
                f"{significant(item.peak_output_tok_s)} at {item.peak_concurrency}",
                count(item.within_limits),
            )
            for item in summary.knees
        ),
    )
