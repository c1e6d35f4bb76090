"""Measuring again before a failure counts: a row that fails once and not again was noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.gates.outcome import GateResult, GateVerdict, Outcome

KINDS = ("regression", "floor")
"""Gates that another measurement can clear. What went wrong during a run stays wrong."""


def unconfirmed(outcome: Outcome) -> tuple[str, ...]:
    """The arms whose failures another measurement could clear; none where something else fails anyway."""
    failed = [gate for gate in outcome.gates if gate.verdict == "fail"]
    if any(gate.kind not in KINDS for gate in failed):
        return ()
    return tuple(dict.fromkeys(key.arm for gate in failed for key in gate.lost))


def confirmed(first: Outcome, again: Sequence[Outcome], wanted: int) -> Outcome:
    """Clear the rows that failed at first and hold in one of the repetitions.

    A row that a repetition did not measure, or could not judge, stays failed: only evidence clears an alarm.

    Args:
        first: the candidate's outcome.
        again: the same gates on each repetition of the candidate; it may have measured only the arms that failed.
        wanted: how many repetitions the gate file asks for.
    """
    outcome = first
    for repetition in again:
        others = {gate.name: gate for gate in repetition.gates}
        name = repetition.candidate.name
        outcome = replace(outcome, gates=tuple(_again(gate, others.get(gate.name), name) for gate in outcome.gates))
    return replace(outcome, measure_again=unconfirmed(outcome) if len(again) < wanted else ())


def _again(gate: GateResult, other: GateResult | None, name: str) -> GateResult:
    if gate.verdict != "fail" or gate.kind not in KINDS or other is None:
        return gate
    gone = [key for key in gate.lost if key in other.held]
    if not gone:
        return gate
    left = tuple(key for key in gate.lost if key not in gone)
    lines = (*gate.details, *(f"{key}: cleared by {name}" for key in gone))
    moved = replace(gate, lost=left, held=(*gate.held, *gone), details=lines)
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return replace(moved, summary=f"{left[0]}{more} failed again in {name}: {gate.summary}")
    verdict: GateVerdict = "unmeasurable" if gate.undecided else "pass"
    return replace(moved, verdict=verdict, cleared=True, summary=f"cleared by {name}; at first: {gate.summary}")
