"""What a comparison says, once for all formats: the headline, and its tables as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.gates.outcome import verdict
from specdeck.report.format import MISSING, clean, count, fixed, milliseconds, percent, significant
from specdeck.report.table import CI, Column, Table
from specdeck.stats.metrics import TITLES
from specdeck.stats.model import CPU_NOTICE, UNKNOWN_DEVICE_NOTICE

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome
    from specdeck.stats.comparison import Effect

_NOTICES = {"cpu": CPU_NOTICE, "unknown": UNKNOWN_DEVICE_NOTICE}
_MARKS = {"pass": "✓ pass", "fail": "✗ FAIL", "unmeasurable": "? unmeasurable"}


def headline(outcome: Outcome) -> str:
    """Whether it passes, and what decided it, in a sentence."""
    found = verdict(outcome)
    subject = f"{clean(outcome.candidate.name)} against {clean(outcome.base.name)}"
    deciding = [gate for gate in outcome.gates if gate.verdict == found]
    if found == "pass":
        effects = outcome.comparison.effects
        better = sum(effect.verdict == "better" for effect in effects)
        gained = f", {better} better" if better else ""
        return f"PASS: {subject}: {len(outcome.gates)} gates pass; {len(effects)} rows compared{gained}."
    first = deciding[0]
    more = f" (and {len(deciding) - 1} more)" if len(deciding) > 1 else ""
    word = "FAIL" if found == "fail" else "UNMEASURABLE"
    return f"{word}: {subject}: {first.name}: {clean(first.summary)}{more}."


def warnings(outcome: Outcome) -> list[str]:
    """What limits the comparison, as lines."""
    lines = []
    if outcome.mismatches:
        names = ", ".join(item.name for item in outcome.mismatches)
        lines.append(f"the sides differ in {names}: the comparison was forced, and times may not be comparable")
    lines += [clean(note.message) for note in outcome.comparison.notes]
    lines += [f"{gate.name}: failed once and was cleared by measuring again" for gate in outcome.gates if gate.cleared]
    if outcome.measure_again:
        arms = ", ".join(clean(arm) for arm in outcome.measure_again)
        lines.append(f"not confirmed yet: measure {arms} again and name that run with --confirm; noise rarely repeats")
    return lines


def gates(outcome: Outcome) -> Table:
    """A row for each gate."""
    return Table(
        key="gates",
        title=f"Gates: {clean(outcome.gate_file)}",
        columns=(Column("gate", text=True), Column("verdict", text=True), Column("why", text=True, wrap=True)),
        rows=tuple((clean(gate.name), _MARKS[gate.verdict], clean(gate.summary)) for gate in outcome.gates),
    )


def effects(outcome: Outcome) -> Table:
    """Throughput, times and acceptance length, by arm and concurrency."""
    rows = [effect for effect in outcome.comparison.effects if effect.key.position is None]
    return _table(outcome, "effects", "What changed", rows)


def positions(outcome: Outcome) -> Table:
    """Acceptance by draft position."""
    rows = [effect for effect in outcome.comparison.effects if effect.key.position is not None]
    return _table(outcome, "positions", "Acceptance by draft position", rows)


def environment(outcome: Outcome) -> Table:
    """Every part of both fingerprints, those that differ first and marked."""
    ours, theirs = outcome.base.fingerprint, outcome.candidate.fingerprint
    names = sorted(dict.fromkeys([*ours, *theirs]), key=lambda name: ours.get(name) == theirs.get(name))
    return Table(
        key="environment",
        title="Where both sides were measured",
        columns=(Column("", text=True), *(Column(side, text=True, wrap=True) for side in ("base", "candidate"))),
        rows=(
            ("run", clean(outcome.base.name), clean(outcome.candidate.name)),
            ("measured", clean(outcome.base.created_at), clean(outcome.candidate.created_at)),
            *(
                (
                    name if ours.get(name) == theirs.get(name) else f"{name} (differs)",
                    clean(ours.get(name) or MISSING),
                    clean(theirs.get(name) or MISSING),
                )
                for name in names
            ),
        ),
    )


def label(effect: Effect) -> str:
    """A row's name: mtp c8 TPOT."""
    at = f" {effect.key.position}" if effect.key.position is not None else ""
    return f"{clean(effect.key.arm, 24)} c{effect.key.concurrency} {TITLES[effect.key.metric]}{at}"


def change(effect: Effect) -> str:
    """The move with its interval: ×1.05 [1.03–1.07], −0.12 [−0.20 to −0.04]."""
    if effect.value is None:
        return MISSING
    if effect.kind == "ratio":
        text = f"×{effect.value:.3f}"
        return f"{text} [{effect.interval.lo:.3f}–{effect.interval.hi:.3f}]" if effect.interval else text
    text = f"{effect.value:+.3f}"
    return f"{text} [{effect.interval.lo:+.3f} to {effect.interval.hi:+.3f}]" if effect.interval else text


def figure(effect: Effect, value: float | None) -> str:
    """A side's figure in the unit that reports use for it."""
    if effect.key.metric in ("ttft_s", "tpot_s"):
        return milliseconds(value)
    if effect.key.metric == "acceptance_length":
        return fixed(value, 2)
    return percent(value) if effect.key.metric == "acceptance_at" else significant(value)


def _table(outcome: Outcome, key: str, title: str, rows: list[Effect]) -> Table:
    reasons = dict.fromkeys(f"not known: {clean(e.reason)}" for e in rows if e.reason)
    floor = "There is no noise floor."
    if outcome.floor_from:
        floor = f"The noise floor is what {clean(outcome.floor_from)} moved by itself."
    return Table(
        key=key,
        title=title,
        notice=_NOTICES.get(outcome.candidate.device) if key == "effects" else None,
        columns=(
            Column("arm", text=True),
            Column("conc."),
            Column("figure", text=True),
            Column("verdict", text=True),
            Column("base"),
            Column("candidate"),
            Column("change", CI),
            Column("q"),
            Column("noise floor"),
        ),
        rows=tuple(
            (
                clean(e.key.arm),
                count(e.key.concurrency),
                TITLES[e.key.metric]
                + (f" {e.key.position}" if e.key.position is not None else "")
                + (", ms" if e.key.metric in ("ttft_s", "tpot_s") else ""),
                e.verdict,
                figure(e, e.base),
                figure(e, e.candidate),
                change(e),
                MISSING if e.q_value is None else f"{e.q_value:.2g}",
                fixed(e.floor, 3),
            )
            for e in rows
        ),
        notes=(
            f"Paired by prompt. q bounds the false discovery rate over all {len(outcome.comparison.effects)} rows "
            f"(Benjamini–Hochberg, {100 * outcome.comparison.false_discovery_rate:g} %). {floor}",
            *reasons,
        ),
    )
