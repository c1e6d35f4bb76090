"""The gate on quality checks: their own verdicts, for every check and arm that the gate asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.gates.outcome import GateResult
from specdeck.report.format import significant

if TYPE_CHECKING:
    from specdeck.gates.measurement import Measurement
    from specdeck.gates.models import Quality
    from specdeck.gates.outcome import GateVerdict
    from specdeck.results.quality import CheckResult


def judge_quality(name: str, gate: Quality, candidate: Measurement) -> GateResult | None:
    """Judge the candidate's stored checks; None where the gate is not required and there is nothing to judge."""
    found = [result for result in candidate.quality if gate.check in (None, result.check)]
    if not found and not gate.required:
        return None
    arms = gate.arms or tuple(dict.fromkeys(arm for arm, _ in candidate.samples))
    if gate.check is not None:
        found = [result for result in found if result.arm in arms]
    there = {result.arm for result in found}
    absent = [f"{gate.check} of {arm}: there is no result" for arm in arms if gate.check and arm not in there]
    failed = [_line(result) for result in found if result.verdict == "fail"]
    unknown = [_line(result) for result in found if result.verdict == "unmeasurable"] + absent
    verdict: GateVerdict = "fail" if failed else "unmeasurable" if unknown or not found else "pass"
    if verdict == "pass":
        checks = sorted({result.check for result in found})
        summary = f"{', '.join(checks)} passed for {', '.join(sorted(there))}"
    else:
        summary = next(iter((*failed, *unknown)), "no quality check lies in the run's folder")
    return GateResult(name=name, kind="quality", verdict=verdict, summary=summary, details=(*failed, *unknown))


def _line(result: CheckResult) -> str:
    """A result in words: gsm8k of mtp is 0.81 [0.75–0.86] (reference 0.94, n = 200): below the reference."""
    text = f"{result.check} of {result.arm}"
    if result.value is not None:
        text += f" is {significant(result.value)}{f' {result.unit}' if result.unit else ''}"
    if result.interval is not None:
        text += f" [{significant(result.interval[0])}–{significant(result.interval[1])}]"
    parts = [f"n = {result.n}"] if result.n else []
    if result.reference is not None:
        parts.insert(0, f"reference {significant(result.reference)}")
    basis = f" ({', '.join(parts)})" if parts else ""
    return f"{text}{basis}: {result.reason}"
