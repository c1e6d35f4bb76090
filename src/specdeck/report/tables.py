"""The tables of a report as text, once for all formats. A renderer decides how they look, never what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import (
    MISSING,
    clean,
    count,
    fixed,
    percent,
    percent_interval,
    ratio,
    significant,
    with_interval,
    with_spread,
)
from specdeck.report.headline import arm_label
from specdeck.report.load_tables import goodput, knees, stages
from specdeck.report.quality_table import quality
from specdeck.report.table import CI, NEAR_MAX, ROUNDS, Column, Table, median, milliseconds_spread, p99

if TYPE_CHECKING:
    from specdeck.stats.model import EqualText, Summary


def tables(summary: Summary) -> list[Table]:
    """All tables that have at least one row, in reading order."""
    if summary.acceptance_kind == "synthetic":
        from specdeck.report import synthetic  # noqa: PLC0415 - it makes tables of this module's kind

        made = [
            steps(summary),
            synthetic.assumed_throughput(summary),
            synthetic.asked_positions(summary),
            latency(summary),
        ]
        return [table for table in made if table.rows]
    made = [
        throughput(summary),
        acceptance(summary),
        steps(summary),
        latency(summary),
        goodput(summary),
        stages(summary),
        knees(summary),
        positions(summary),
        categories(summary),
        category_throughput(summary),
        equal_texts(summary),
        quality(summary),
    ]
    return [table for table in made if table.rows]


def throughput(summary: Summary) -> Table:
    """Output tok/s and its ratio to the baseline, by arm and concurrency."""
    baseline = clean(summary.baseline) if summary.baseline else "baseline"
    return Table(
        key="throughput",
        title="Output throughput",
        notice=summary.throughput_notice,
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("output tok/s", ROUNDS),
            Column(f"ratio to {baseline}", CI),
            Column("tokens", "an answer"),
            Column("requests"),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                with_spread(row.output_tok_s),
                ratio(row.ratio) if summary.baseline else MISSING,
                significant(row.mean_completion_tokens),
                f"{row.requests} (+{row.failed} failed)" if row.failed else count(row.requests),
            )
            for row in summary.rows
        ),
    )


def acceptance(summary: Summary) -> Table:
    """Acceptance length, draft acceptance rate and prefix hits, by arm and concurrency."""
    return Table(
        key="acceptance",
        title="Acceptance",
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("acceptance length", CI),
            Column("drafts accepted"),
            Column("prefix hits"),
            Column("prompts"),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                with_interval(row.acceptance.length),
                percent(row.acceptance.draft_acceptance_rate),
                percent(row.prefix_hit_rate),
                count(row.prompts),
            )
            for row in summary.rows
        ),
        notes=("Acceptance length includes the bonus token: 1 + accepted / drafts.",),
    )


def steps(summary: Summary) -> Table:
    """Time of a verification step, and the acceptance length from which it pays, by arm and concurrency."""
    measured = summary.acceptance_kind == "measured"
    return Table(
        key="steps",
        title="Verification steps",
        notice=summary.throughput_notice if measured else None,
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("step, ms", ROUNDS),
            Column("breaks even at length", CI),
            *((Column("acceptance length"),) if measured else ()),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                milliseconds_spread(row.step_s),
                MISSING if row.break_even is None else with_interval(row.break_even),
                *((fixed(row.acceptance.length.value, 2),) if measured else ()),
            )
            for row in summary.rows
            if row.step_s.value is not None
        ),
        notes=(
            "A step is from one token of a request to the next without a drafter, from one verified draft to the next "
            "with one. It breaks even where the acceptance length equals its time over that of a step without a "
            "drafter; decoding alone, a longer time to the first token not counted.",
        ),
    )


def latency(summary: Summary) -> Table:
    """Time to first token and time per output token, by arm and concurrency."""
    near = any(q.n and q.p99_near_max for row in summary.rows for q in (row.ttft_s, row.tpot_s))
    return Table(
        key="latency",
        title="Latency, ms",
        notice=summary.throughput_notice,
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("TTFT p50", CI),
            Column("TTFT p99"),
            Column("TPOT p50", CI),
            Column("TPOT p99"),
            Column("n"),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                median(row.ttft_s),
                p99(row.ttft_s),
                median(row.tpot_s),
                p99(row.tpot_s),
                count(row.ttft_s.n),
            )
            for row in summary.rows
        ),
        notes=(NEAR_MAX,) if near else (),
    )


def positions(summary: Summary) -> Table:
    """Share of drafts accepted at each position: one row a position, one column an arm."""
    arms = [arm for arm in summary.arms if arm.positions]
    depth = max((len(arm.positions) for arm in arms), default=0)
    return Table(
        key="positions",
        title="Acceptance by draft position",
        columns=(Column("position", text=True), *(Column(arm_label(arm), CI) for arm in arms)),
        rows=tuple(
            (
                str(i + 1),
                *(percent_interval(arm.positions[i].rate) if i < len(arm.positions) else MISSING for arm in arms),
            )
            for i in range(depth)
        ),
        notes=("Share of drafts in which that position was accepted; the shares sum to acceptance length − 1.",),
    )


def categories(summary: Summary) -> Table:
    """Acceptance length by category: one row a category, one column an arm."""
    arms = [
        arm
        for arm in summary.arms
        if any(row.arm == arm.name and row.acceptance_length.value is not None for row in summary.categories)
    ]
    found = {(row.category, row.arm): row for row in summary.categories}
    names = dict.fromkeys(row.category for row in summary.categories) if arms else {}
    return Table(
        key="categories",
        title="Acceptance length by category",
        columns=(Column("category", text=True), Column("prompts"), *(Column(arm_label(arm), CI) for arm in arms)),
        rows=tuple(
            (
                clean(name),
                count(max(row.prompts for row in summary.categories if row.category == name)),
                *(
                    with_interval(found[name, arm.name].acceptance_length) if (name, arm.name) in found else MISSING
                    for arm in arms
                ),
            )
            for name in names
        ),
        notes=("From the answers' own payloads. An interval needs six prompts.",),
    )


def category_throughput(summary: Summary) -> Table:
    """Tokens a second of one request by category and concurrency, one column an arm."""
    found = {
        (row.category, rate.concurrency, row.arm): rate.tok_s
        for row in summary.categories
        for rate in row.request_tok_s
    }
    arms = [arm for arm in summary.arms if any(key[2] == arm.name for key in found)]
    places = dict.fromkeys((category, concurrency) for category, concurrency, _ in found)
    return Table(
        key="category-throughput",
        title="Tokens a second of one request, by category",
        notice=summary.throughput_notice,
        columns=(Column("category", text=True), Column("conc."), *(Column(arm_label(arm)) for arm in arms)),
        rows=tuple(
            (clean(name), count(at), *(significant(found.get((name, at, arm.name))) for arm in arms))
            for name, at in places
        ),
    )


def equal_texts(summary: Summary) -> Table:
    """How many texts equal the baseline's."""
    return Table(
        key="equal-text",
        title=f"Same text as {clean(summary.baseline or MISSING)}",
        columns=(Column("arm", text=True), Column("compared"), Column("equal"), Column("share")),
        rows=tuple(
            (clean(item.arm), count(item.compared), count(item.equal), percent(item.share))
            for item in summary.equal_text
        ),
        notes=tuple(note for item in summary.equal_text for note in _differences(item)),
    )


def _differences(item: EqualText, limit: int = 10) -> list[str]:
    """One line a differing prompt: where it first differs, and in which cells."""
    where: dict[tuple[str, str], list[str]] = {}
    for d in item.differences:
        at = "" if d.first_difference is None else f" from character {d.first_difference}"
        where.setdefault((clean(d.prompt_id, 80), at), []).append(f"c{d.concurrency}-r{d.round}")
    arm = clean(item.arm)
    lines = [f"{arm}: {prompt} differs{at} in {', '.join(cells)}" for (prompt, at), cells in where.items()]
    more = len(lines) - limit
    return lines if more <= 0 else [*lines[:limit], f"{arm}: and {more} more, all in summary.json"]
