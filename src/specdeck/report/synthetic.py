"""What a run of synthetic acceptance says: step times first, throughput only as at an assumed acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import MISSING, clean, count, percent, ratio, significant, with_interval
from specdeck.report.headline import arm_label
from specdeck.report.table import CI, Column, Table, milliseconds_spread

if TYPE_CHECKING:
    from specdeck.stats.model import ArmSummary, Row, Summary

COVERS = (
    "The server accepted drafts at the asked rates, whatever they said, so its texts mean nothing. Covered: the "
    "time of a step on this hardware with this engine, and what a given acceptance would make of it. Not covered: "
    "what a trained drafter reaches, whether texts stay equal, and work that depends on what is said (routing of "
    "experts, stop conditions, answers of different lengths)."
)


def asked_length(arm: ArmSummary | None) -> float | None:
    """Acceptance length that was asked for, the bonus token included: 1 + the sum of the asked rates."""
    return None if arm is None or arm.asked_rates is None else 1 + sum(arm.asked_rates)


def decode_tok_s(row: Row, arm: ArmSummary | None) -> float | None:
    """Tokens a second of one request while it decodes: asked length / step time, 1 / step time without a drafter."""
    if row.step_s.value is None or arm is None:
        return None
    length = asked_length(arm) if arm.method is not None else 1.0
    return None if length is None else length / row.step_s.value


def assumed_throughput(summary: Summary) -> Table:
    """Throughput at the asked acceptance, decoding alone and in the closed loop that was run."""
    arms = {arm.name: arm for arm in summary.arms}
    baseline = clean(summary.baseline) if summary.baseline else "baseline"
    return Table(
        key="assumed-throughput",
        title="Throughput",
        notice=summary.throughput_notice,
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("asked", "length"),
            Column("realised", CI),
            Column("a request decodes", "tok/s"),
            Column("closed loop", "output tok/s"),
            Column(f"ratio to {baseline}", CI),
        ),
        rows=tuple(
            (
                clean(row.arm),
                count(row.concurrency),
                significant(asked_length(arms.get(row.arm))),
                with_interval(row.acceptance.length),
                significant(decode_tok_s(row, arms.get(row.arm))),
                significant(row.output_tok_s.value),
                ratio(row.ratio) if summary.baseline else MISSING,
            )
            for row in summary.rows
        ),
        notes=(
            "A request decodes at asked length / step time; the closed loop counts prefills and ends of answers too.",
            COVERS,
        ),
    )


def asked_positions(summary: Summary) -> Table:
    """Asked and realised share of drafts accepted at each position, an arm's two columns beside each other."""
    arms = [arm for arm in summary.arms if arm.positions and arm.asked_rates is not None]
    depth = max((len(arm.positions) for arm in arms), default=0)

    def pair(arm: ArmSummary, i: int) -> tuple[str, str]:
        rates = arm.asked_rates or ()
        asked = percent(rates[i]) if i < len(rates) else MISSING
        return asked, percent(arm.positions[i].rate.value) if i < len(arm.positions) else MISSING

    return Table(
        key="positions",
        title="Acceptance by draft position: asked, and what became of it",
        columns=(
            Column("position", text=True),
            *(column for arm in arms for column in (Column(arm_label(arm), "asked"), Column("", "realised"))),
        ),
        rows=tuple((str(i + 1), *(cell for arm in arms for cell in pair(arm, i))) for i in range(depth)),
    )


def headline(summary: Summary) -> str:
    """Say at which acceptance length each drafter breaks even, and that no drafter was judged."""
    levels = sorted({row.concurrency for row in summary.rows})
    ends = levels if len(levels) < 3 else [levels[0], levels[-1]]
    rows = {(row.arm, row.concurrency): row for row in summary.rows}
    parts = []
    for arm in summary.arms:
        found = [(c, rows[arm.name, c]) for c in ends if (arm.name, c) in rows]
        told = [
            f"{with_interval(row.break_even)} at concurrency {c}"
            for c, row in found
            if row.break_even is not None and row.break_even.value is not None
        ]
        if told:
            parts.append(f"{arm_label(arm)} {', '.join(told)}")
    where = clean(summary.recipe)
    if parts:
        return f"Acceptance length at which a drafter breaks even on {where}, by step times: {'; '.join(parts)}."
    plain = [
        f"{milliseconds_spread(row.step_s)} ms ({clean(row.arm)}, concurrency {row.concurrency})"
        for row in summary.rows
        if row.step_s.value is not None
    ]
    return (
        f"Step times on {where}: {', '.join(plain[:4]) or 'not known'}; without a baseline that drafts nothing there "
        "is no break-even length."
    )
