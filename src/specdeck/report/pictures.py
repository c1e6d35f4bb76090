"""Which pictures a report has, and what each says to somebody who cannot see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.report.format import percent, with_spread
from specdeck.report.headline import arm_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdeck.stats.model import Summary


@dataclass(frozen=True)
class Picture:
    """A picture's name, its file beside the report, its title, and its alternative text."""

    name: str
    file: str
    title: str
    alt: Callable[[Summary], str]


def _acceptance_alt(summary: Summary) -> str:
    arms = [
        f"{arm_label(arm)} {', '.join(percent(p.rate.value) for p in arm.positions)}"
        for arm in summary.arms
        if arm.positions
    ]
    return f"Acceptance by draft position, from position 1: {'; '.join(arms)}."


def _throughput_alt(summary: Summary) -> str:
    labels = {arm.name: arm_label(arm) for arm in summary.arms}
    rows = [
        f"{labels.get(row.arm, row.arm)} {with_spread(row.output_tok_s)} at concurrency {row.concurrency}"
        for row in summary.rows
    ]
    notice = f" ({summary.throughput_notice})" if summary.throughput_notice else ""
    return f"Output tok/s{notice}: {'; '.join(rows)}."


PICTURES = (
    Picture("acceptance", "acceptance.png", "Acceptance by draft position", _acceptance_alt),
    Picture("throughput", "throughput.png", "Output throughput", _throughput_alt),
)
