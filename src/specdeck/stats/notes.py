"""What limits a run's figures, said in words: excluded cells, missing arms, witnesses that disagree, thin pairing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.stats.acceptance import positions_agree
from specdeck.stats.model import Note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from specdeck.results.schema import Cell, CounterDelta, Run
    from specdeck.stats.model import Acceptance
    from specdeck.stats.throughput import PairedRatio

WITNESS_TOLERANCE = 0.01
"""Relative difference of the two acceptance lengths above which a report says so."""


def run_notes(run: Run, arms: Sequence[str], measured: Collection[str]) -> list[Note]:
    """Say what is missing from the run as a whole."""
    notes: list[Note] = []
    if run.status != "complete":
        notes.append(Note(code="run-incomplete", severity="warning", message=f"the run is {run.status}, not complete"))
    for name in arms:
        info = run.arms.get(name)
        if name in measured:
            continue
        if info is not None and info.unavailable:
            text = f"arm {name} was not measured: {info.unavailable}"
        else:
            text = f"arm {name} has no valid cell"
        notes.append(Note(code="arm-not-measured", severity="warning", message=text, arm=name))
    if run.baseline_arm is None:
        notes.append(
            Note(code="no-baseline", severity="warning", message="no baseline arm in this run: there are no ratios")
        )
    elif run.baseline_arm not in measured:
        text = f"the baseline {run.baseline_arm} has no valid cell: there are no ratios"
        notes.append(Note(code="no-baseline", severity="warning", message=text, arm=run.baseline_arm))
    return notes


def cell_notes(cells: Sequence[Cell]) -> list[Note]:
    """Pass on what was found while measuring, and count failed requests of cells that are in the figures."""
    notes: list[Note] = []
    for cell in sorted(cells, key=lambda c: (c.arm, c.concurrency, c.round)):
        notes.extend(
            Note(code=f.code, severity=f.severity, message=f.message, arm=cell.arm, cell_id=cell.cell_id)
            for f in cell.findings
        )
        invalid = any(finding.severity == "invalid" for finding in cell.findings)
        if cell.status == "invalid" and not invalid:
            text = "the cell is marked invalid"
            notes.append(Note(code="invalid", severity="invalid", message=text, arm=cell.arm, cell_id=cell.cell_id))
        if cell.num_failed and cell.status == "ok":
            text = f"{cell.num_failed} of {cell.num_requests} requests failed and are in no figure"
            notes.append(
                Note(code="requests-failed", severity="warning", message=text, arm=cell.arm, cell_id=cell.cell_id)
            )
    return notes


def counter_notes(arm: str, found: Acceptance, counters: CounterDelta) -> list[Note]:
    """Check an arm's acceptance against itself: positions against the total, counters against payloads."""
    notes: list[Note] = []
    if positions_agree(counters) is False and counters.accepted_per_pos is not None:
        text = (
            f"accepted tokens by position sum to {sum(counters.accepted_per_pos)}, "
            f"their counter says {counters.accepted_tokens}: per-position rates do not sum to acceptance length - 1"
        )
        notes.append(Note(code="positions-disagree", severity="warning", message=text, arm=arm))
    counted, told = found.length_from_counters, found.length_from_payloads
    if counted is not None and told is not None and abs(counted - told) > WITNESS_TOLERANCE * counted:
        text = (
            f"acceptance length is {counted:.3f} by the server's counters and {told:.3f} by the answers' own payloads "
            f"({found.requests_with_payload} requests)"
        )
        notes.append(Note(code="witnesses-disagree", severity="warning", message=text, arm=arm))
    return notes


def ratio_notes(arm: str, baseline: str, concurrency: int, paired: PairedRatio, rounds: int) -> list[Note]:
    """Say where a ratio rests on less than everything that was measured."""
    notes: list[Note] = []
    where = f"{arm} against {baseline} at concurrency {concurrency}"
    if not paired.rounds:
        text = f"{where}: no valid round in common, so there is no ratio"
        notes.append(Note(code="ratio-unpaired", severity="warning", message=text, arm=arm))
    elif len(paired.rounds) < rounds:
        text = f"{where}: the ratio uses rounds {', '.join(map(str, paired.rounds))} only, those valid in both arms"
        notes.append(Note(code="ratio-rounds", severity="warning", message=text, arm=arm))
    if paired.rounds and paired.unpaired:
        text = (
            f"{where}: {paired.unpaired} requests were answered in one arm only; the interval rests on the "
            f"{paired.paired} answered in both"
        )
        notes.append(Note(code="ratio-pairs", severity="warning", message=text, arm=arm))
    return notes
