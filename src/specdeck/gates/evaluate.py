"""From two measurements and a gate file to verdicts. A gate that cannot be decided says why; it never passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from specdeck.gates.confirm import unconfirmed
from specdeck.gates.measurement import mismatches
from specdeck.gates.outcome import GateResult, Mismatch, Outcome, SideInfo
from specdeck.gates.quality import judge_quality
from specdeck.report.format import significant
from specdeck.stats.acceptance import acceptance_length, pool, positions_from_counters
from specdeck.stats.comparison import Effect, Key, compare, is_worse, size

if TYPE_CHECKING:
    from specdeck.gates.measurement import Measurement
    from specdeck.gates.models import Floor, GateFile, Regression, Validity, Where
    from specdeck.gates.outcome import GateVerdict
    from specdeck.stats.comparison import Comparison
    from specdeck.stats.sample import Sample

NO_FLOOR = "no noise floor: the base has no repetition (specdeck baseline set RUN --aa RUN2, or --aa)"


def evaluate(base: Measurement, candidate: Measurement, gates: GateFile) -> Outcome:
    """Compare and judge."""
    comparison = compare(base.samples, candidate.samples, base.floors)
    results = [_regression(name, gate, base, candidate, comparison) for name, gate in gates.regressions.items()]
    results += [_floor(name, gate, candidate) for name, gate in gates.floors.items()]
    judged = [judge_quality(name, gate, candidate) for name, gate in gates.quality.items()]
    results += [result for result in judged if result is not None]
    if gates.validity is not None:
        results.append(_validity(gates.validity, candidate))
    if gates.contamination is not None:
        results.append(_contamination(candidate))
    outcome = Outcome(
        base=_side(base),
        candidate=_side(candidate),
        floor_from=base.floor_from,
        mismatches=tuple(
            Mismatch(name=name, base=ours, candidate=theirs) for name, ours, theirs in mismatches(base, candidate)
        ),
        comparison=comparison,
        gate_file=gates.name,
        gates=tuple(results),
    )
    return replace(outcome, measure_again=unconfirmed(outcome) if gates.confirm else ())


def _regression(
    name: str, gate: Regression, base: Measurement, candidate: Measurement, comparison: Comparison
) -> GateResult:
    rows = [
        e for e in comparison.effects if e.key.metric == gate.metric and _applies(gate, e.key.arm, e.key.concurrency)
    ]
    unknown = [f"{where} was not measured on both sides" for where in _missing(gate, base, candidate)]
    unknown += [f"{e.key}: {e.reason or 'no verdict'}" for e in rows if e.verdict == "not known"]
    unknown += [f"{e.key}: {NO_FLOOR}" for e in rows if e.verdict != "not known" and e.floor is None]
    lost = [e for e in rows if e.verdict == "worse" and e.floor is not None and (size(e) or 0) > gate.max_loss]
    held = [e for e in rows if e.verdict != "not known" and e.floor is not None and e not in lost]
    verdict: GateVerdict = "fail" if lost else "unmeasurable" if unknown or not rows else "pass"
    downwards = [e for e in rows if is_worse(e)]
    if lost:
        worst = max(lost, key=lambda e: size(e) or 0)
        summary = f"{_short(worst)}; {len(lost)} of {len(rows)} rows lost more than {_loss(gate, gate.max_loss)}"
    elif verdict == "unmeasurable":
        summary = unknown[0] if unknown else f"neither side has a row of {gate.metric}"
    elif downwards:
        worst = max(downwards, key=lambda e: size(e) or 0)
        summary = f"no loss above {_loss(gate, gate.max_loss)} in {len(rows)} rows; the lowest: {_short(worst)}"
    else:
        summary = f"none of {len(rows)} rows is worse"
    return GateResult(
        name=name,
        kind="regression",
        verdict=verdict,
        summary=summary,
        details=(*map(_move, lost), *unknown),
        lost=tuple(e.key for e in lost),
        held=tuple(e.key for e in held),
        undecided=tuple(unknown),
    )


def _floor(name: str, gate: Floor, candidate: Measurement) -> GateResult:
    below: dict[Key, str] = {}
    seen: dict[Key, float] = {}
    unknown = [f"{where} was not measured" for where in _absent(gate, candidate)]
    for (arm, concurrency), sample in candidate.samples.items():
        if not _applies(gate, arm, concurrency):
            continue
        value = _absolute(gate, sample)
        at = f" at position {gate.position}" if gate.position else ""
        where = f"{gate.metric}{at} of {arm} at concurrency {concurrency}"
        if value is None:
            if gate.arms is not None:
                unknown.append(f"{where}: not available")
            continue
        key = Key(arm=arm, concurrency=concurrency, metric=gate.metric, position=gate.position)
        seen[key] = value
        if value < gate.min:
            below[key] = f"{where} is {significant(value)}, below {significant(gate.min)}"
    verdict: GateVerdict = "fail" if below else "unmeasurable" if unknown or not seen else "pass"
    lines = [*below.values(), *unknown]
    if verdict == "pass":
        summary = f"lowest {gate.metric} is {significant(min(seen.values()))}, not below {significant(gate.min)}"
    else:
        summary = lines[0] if lines else f"no arm has {gate.metric}"
    return GateResult(
        name=name,
        kind="floor",
        verdict=verdict,
        summary=summary,
        details=tuple(lines),
        lost=tuple(below),
        held=tuple(key for key in seen if key not in below),
        undecided=tuple(unknown),
    )


def _validity(gate: Validity, candidate: Measurement) -> GateResult:
    failed = sum(r.failed for sample in candidate.samples.values() for r in sample.rounds)
    invalid = len(candidate.invalid)
    summary = (
        f"{invalid} invalid cells ({gate.max_invalid_cells} allowed), "
        f"{failed} failed requests ({gate.max_failed_requests} allowed)"
    )
    verdict: GateVerdict = "pass"
    if invalid > gate.max_invalid_cells or failed > gate.max_failed_requests:
        verdict = "fail"
    elif not candidate.complete or not candidate.samples:
        verdict = "unmeasurable"
        summary = f"the run is not complete; {summary}"
    return GateResult(name="validity", kind="validity", verdict=verdict, summary=summary, details=candidate.invalid)


def _contamination(candidate: Measurement) -> GateResult:
    verdict: GateVerdict = "fail" if candidate.contaminated else "pass"
    summary = "nobody else used the server"
    if candidate.contaminated:
        summary = f"somebody else used the server during {', '.join(candidate.contaminated)}"
    elif not candidate.samples:
        verdict, summary = "unmeasurable", "no cell was measured"
    return GateResult(name="contamination", kind="contamination", verdict=verdict, summary=summary)


def _applies(gate: Where, arm: str, concurrency: int) -> bool:
    return (gate.arms is None or arm in gate.arms) and (gate.concurrency is None or concurrency in gate.concurrency)


def _missing(gate: Where, base: Measurement, candidate: Measurement) -> list[str]:
    """What the gate asks for and a side lacks: rows of the base, and arms and concurrencies that the gate names."""
    rows = [key for key in base.samples if _applies(gate, *key)]
    found = [f"{arm} at concurrency {at}" for arm, at in rows if (arm, at) not in candidate.samples]
    return found + _absent(gate, base)


def _absent(gate: Where, side: Measurement) -> list[str]:
    arms, levels = {arm for arm, _ in side.samples}, {at for _, at in side.samples}
    found = [f"the arm {arm}" for arm in gate.arms or () if arm not in arms]
    return found + [f"the concurrency {at}" for at in gate.concurrency or () if at not in levels]


def _absolute(gate: Floor, sample: Sample) -> float | None:
    counters = pool([item.counters for item in sample.rounds])
    if gate.metric == "acceptance_length":
        return acceptance_length(counters.accepted_tokens, counters.drafts)
    if gate.metric == "acceptance_at":
        rates = positions_from_counters(counters) or ()
        assert gate.position is not None
        return rates[gate.position - 1] if gate.position <= len(rates) else None
    tokens = [item.tokens for item in sample.rounds]
    known = [t for t in tokens if t is not None]
    return sum(known) / sum(item.duration_s for item in sample.rounds) if len(known) == len(tokens) else None


def _short(effect: Effect) -> str:
    """A row's move in words: TPOT of mtp at concurrency 8 ×1.050 [1.030, 1.070]."""
    sign, form = ("×", ".3f") if effect.kind == "ratio" else ("", "+.3f")
    text = f"{effect.key} {sign}{effect.value or 0:{form}}"
    return f"{text} [{effect.interval.lo:{form}}, {effect.interval.hi:{form}}]" if effect.interval else text


def _move(effect: Effect) -> str:
    """The same with what makes it significant."""
    parts = [_short(effect)]
    if effect.q_value is not None:
        parts.append(f"q = {effect.q_value:.2g}")
    if effect.floor is not None:
        parts.append(f"noise floor {effect.floor:.3f}")
    return ", ".join(parts)


def _loss(gate: Regression, value: float) -> str:
    return f"{value:g}" if gate.metric.startswith("acceptance") else f"{100 * value:g} %"


def _side(side: Measurement) -> SideInfo:
    return SideInfo(name=side.name, created_at=side.created_at, device=side.device, fingerprint=side.fingerprint)
