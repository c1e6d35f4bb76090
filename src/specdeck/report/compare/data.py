"""A comparison as data: JSON with everything, CSV with a line for each effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.report.csv_tables import write_csv

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome


def as_json(outcome: Outcome) -> str:
    """The outcome, indented, in the order of its fields."""
    return msgspec.json.format(msgspec.json.encode(outcome), indent=1).decode() + "\n"


def as_csv(outcome: Outcome) -> str:
    """Raw numbers: seconds, fractions of 1, tokens a second; missing is empty."""
    head = (
        "arm", "concurrency", "metric", "position", "kind", "base", "candidate", "value", "lo", "hi", "p_value",
        "q_value", "noise_floor", "drift_standard_error", "prompts", "verdict", "reason",
    )  # fmt: skip
    return write_csv(
        head,
        (
            (
                e.key.arm, e.key.concurrency, e.key.metric, e.key.position, e.kind, e.base, e.candidate, e.value,
                e.interval.lo if e.interval else None, e.interval.hi if e.interval else None, e.p_value, e.q_value,
                e.floor, e.drift, e.prompts, e.verdict, e.reason,
            )
            for e in outcome.comparison.effects
        ),
    )  # fmt: skip
