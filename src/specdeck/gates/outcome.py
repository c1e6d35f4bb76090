"""What a comparison with gates says as a whole: both sides, every effect, every verdict."""

from __future__ import annotations

from typing import Literal

from specdeck.errors import EXIT_FAILED, EXIT_OK, EXIT_UNMEASURABLE
from specdeck.results.schema import Strict
from specdeck.stats.comparison import Comparison, Key  # noqa: TC001 - msgspec reads the annotations

OUTCOME_VERSION = 1
GateVerdict = Literal["pass", "fail", "unmeasurable"]


class GateResult(Strict, frozen=True, kw_only=True):
    """A gate's verdict.

    Attributes:
        name, kind: which gate.
        verdict, summary: what it says, and why in a sentence.
        details: a line for each row that decided it.
        lost, held: the rows that fail it and those that pass it; empty for gates that do not look at rows.
        undecided: why some of what it looks at could not be judged.
        cleared: it failed at first, and none of the rows that failed it did so again.
    """

    name: str
    kind: Literal["regression", "floor", "quality", "validity", "contamination"]
    verdict: GateVerdict
    summary: str
    details: tuple[str, ...] = ()
    lost: tuple[Key, ...] = ()
    held: tuple[Key, ...] = ()
    undecided: tuple[str, ...] = ()
    cleared: bool = False


class Mismatch(Strict, frozen=True, kw_only=True):
    """A part of the fingerprint that differs between the sides."""

    name: str
    base: str | None
    candidate: str | None


class SideInfo(Strict, frozen=True, kw_only=True):
    """Which measurement a side is."""

    name: str
    created_at: str
    device: str
    fingerprint: dict[str, str | None]


class Outcome(Strict, frozen=True, kw_only=True):
    """Everything a report of a comparison says.

    `measure_again` names the arms that the gate file wants measured once more before the failure counts.
    """

    schema_version: int = OUTCOME_VERSION
    base: SideInfo
    candidate: SideInfo
    floor_from: str | None
    mismatches: tuple[Mismatch, ...]
    comparison: Comparison
    gate_file: str
    gates: tuple[GateResult, ...]
    measure_again: tuple[str, ...] = ()


def verdict(outcome: Outcome) -> GateVerdict:
    """Fail when any gate fails, else unmeasurable when any is, else pass."""
    found = {gate.verdict for gate in outcome.gates}
    return "fail" if "fail" in found else "unmeasurable" if "unmeasurable" in found else "pass"


def exit_code(outcome: Outcome) -> int:
    """0 pass, 1 fail, 2 unmeasurable."""
    return {"pass": EXIT_OK, "fail": EXIT_FAILED, "unmeasurable": EXIT_UNMEASURABLE}[verdict(outcome)]
