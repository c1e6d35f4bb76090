"""The one sentence a reader takes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.report.format import MISSING, clean, ratio, with_interval, with_spread

if TYPE_CHECKING:
    from specdeck.stats.model import ArmSummary, Row, Summary

_NAMES = {"dflash2": "DFlash2", "dflash": "DFlash", "mtp": "MTP", "none": "no drafter", "eagle3": "EAGLE-3"}


def arm_label(arm: ArmSummary) -> str:
    """A reader's name of an arm with its draft length: DFlash2 (n=7)."""
    name = _NAMES.get(arm.name, clean(arm.name, 40))
    return name if arm.num_speculative_tokens is None else f"{name} (n={arm.num_speculative_tokens})"


def drafters(summary: Summary) -> list[ArmSummary]:
    """Measured arms that draft, the longest acceptance first."""
    found = [
        arm for arm in summary.arms if arm.cells and (arm.method is not None or arm.acceptance.length.value is not None)
    ]
    return sorted(found, key=lambda arm: -(arm.acceptance.length.value or 0))


def headline(summary: Summary) -> str:
    """Say who accepts how much and who is how fast, with intervals, and whether that predicts a GPU."""
    if not summary.rows:
        return f"Nothing to compare on {clean(summary.recipe)}: {_invalid(summary)}."
    if summary.acceptance_kind == "synthetic":
        from specdeck.report import synthetic  # noqa: PLC0415 - it names arms as this module does

        return synthetic.headline(summary)
    arms = drafters(summary)
    shown = arms or [arm for arm in summary.arms if arm.cells]
    subject = " vs ".join(arm_label(arm) for arm in shown)
    facts = []
    if arms:
        lengths = " vs ".join(with_interval(arm.acceptance.length) for arm in arms)
        facts.append(f"acceptance length {lengths}")
    facts.append(_throughput(summary, shown))
    return f"{subject} on {_setting(summary)}: {'; '.join(facts)}."


def _throughput(summary: Summary, arms: list[ArmSummary]) -> str:
    rows = {(row.arm, row.concurrency): row for row in summary.rows}
    levels = sorted({row.concurrency for row in summary.rows})
    ends = levels if len(levels) < 3 else [levels[0], levels[-1]]
    has_ratio = any(row.ratio is not None and row.ratio.value is not None for row in summary.rows)

    def write(row: Row | None) -> str:
        if row is None:
            return MISSING
        return ratio(row.ratio) if has_ratio else with_spread(row.output_tok_s)

    parts = [f"{' vs '.join(write(rows.get((arm.name, c))) for arm in arms)} at concurrency {c}" for c in ends]
    relative = f" relative to {clean(summary.baseline)}" if has_ratio and summary.baseline else ""
    notice = f" ({summary.throughput_notice})" if summary.throughput_notice else ""
    return f"output tok/s{relative} {', '.join(parts)}{notice}"


def _setting(summary: Summary) -> str:
    prompts = max(row.prompts for row in summary.rows)
    rounds = max(row.rounds for row in summary.rows)
    words = [clean(summary.recipe), _counted(prompts, "prompt"), _counted(rounds, "round")]
    if summary.temperature is not None:
        words.append("greedy" if summary.temperature == 0 else f"temperature {summary.temperature:g}")
    return ", ".join(words)


def _invalid(summary: Summary) -> str:
    if summary.excluded_cells:
        return f"{_counted(summary.excluded_cells, 'cell')} measured, none valid"
    return "no cell was measured"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
