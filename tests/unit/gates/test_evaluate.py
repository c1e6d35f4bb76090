"""Every kind of gate: a candidate that it lets pass, one that it fails, and one that it cannot judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.sides import measured, with_floors

from specdeck.gates.evaluate import confirmed, evaluate
from specdeck.gates.models import GateFile, load_gates
from specdeck.gates.outcome import Outcome, exit_code, verdict
from specdeck.results.schema import Finding
from specdeck.stats.metrics import TITLES

BASE = with_floors(measured("base"))
CONTAMINATED = Finding(code="contaminated", severity="invalid", message="drafts of somebody else")


def gate(**parts: Any) -> GateFile:
    return GateFile.model_validate({"name": "one", "title": "One gate", **parts}, strict=False)


def judged(gates: GateFile, **candidate: Any) -> Outcome:
    return evaluate(BASE, measured("candidate", seed=2, **candidate), gates)


REGRESSIONS: dict[str, tuple[float, dict[str, Any]]] = {
    "output_tok_s": (0.03, {"slower": 1.1}),
    "tpot_s": (0.03, {"slower": 1.1}),
    "ttft_s": (0.1, {"first": 1.3}),
    "acceptance_length": (0.05, {"accepted": 1}),
    "acceptance_at": (0.02, {"accepted": 1}),
}


@pytest.mark.parametrize("metric", REGRESSIONS)
def test_a_regression_of_each_metric_fails_its_gate_and_an_equal_candidate_passes(metric: str) -> None:
    limit, worse = REGRESSIONS[metric]
    gates = gate(regressions={"it": {"metric": metric, "max_loss": limit}})
    assert verdict(judged(gates)) == "pass"
    failed = judged(gates, **worse)
    assert (verdict(failed), exit_code(failed)) == ("fail", 1)
    assert TITLES[metric] in failed.gates[0].summary


def test_a_loss_below_the_smallest_that_matters_passes_and_says_how_large_it_is() -> None:
    found = judged(gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.2}}), slower=1.1)
    assert verdict(found) == "pass"
    assert "×1.1" in found.gates[0].summary


def test_an_improvement_never_fails() -> None:
    assert verdict(judged(load_gates("default"), slower=0.8, first=0.7, accepted=3)) == "pass"


def test_without_a_noise_floor_a_regression_is_unmeasurable_and_says_what_to_do() -> None:
    bare = replace(BASE, floors={}, floor_from=None)
    found = evaluate(
        bare, measured("candidate", slower=1.2), gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03}})
    )
    assert (verdict(found), exit_code(found)) == ("unmeasurable", 2)
    assert "--aa" in found.gates[0].summary


def test_an_arm_that_the_candidate_lacks_is_unmeasurable_not_passed() -> None:
    found = judged(gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03}}), arms=("none",))
    assert verdict(found) == "unmeasurable"
    assert "mtp at concurrency 1" in found.gates[0].summary


@pytest.mark.parametrize("where", [{"arms": ["dflash2"]}, {"concurrency": [64]}])
def test_a_gate_on_what_nobody_measured_is_unmeasurable(where: dict[str, Any]) -> None:
    regression = gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03, **where}})
    floor = gate(floors={"it": {"metric": "acceptance_length", "min": 1.5, **where}})
    assert verdict(judged(regression)) == "unmeasurable"
    assert verdict(judged(floor)) == "unmeasurable"


@pytest.mark.parametrize(
    ("floor", "low", "high"),
    [
        ({"metric": "acceptance_length"}, 2.4, 2.6),
        ({"metric": "acceptance_at", "position": 2}, 0.4, 0.6),
        ({"metric": "output_tok_s", "arms": ["mtp"]}, 1.0, 10_000.0),
    ],
)
def test_a_floor_passes_above_and_fails_below(floor: dict[str, Any], low: float, high: float) -> None:
    assert verdict(judged(gate(floors={"it": {**floor, "min": low}}))) == "pass"
    found = judged(gate(floors={"it": {**floor, "min": high}}))
    assert verdict(found) == "fail"
    assert "below" in found.gates[0].summary


def test_validity_fails_on_an_invalid_cell_or_failed_requests_and_passes_without() -> None:
    gates = gate(validity={})
    assert verdict(judged(gates)) == "pass"
    assert verdict(judged(gates, finding=CONTAMINATED)) == "fail"
    assert verdict(judged(gates, failed=1)) == "fail"
    assert verdict(judged(gate(validity={"max_failed_requests": 1}), failed=1)) == "pass"
    assert verdict(judged(gates, status="partial")) == "unmeasurable"


def test_contamination_fails_only_when_somebody_else_used_the_server() -> None:
    gates = gate(contamination={})
    other = Finding(code="restarted", severity="invalid", message="restarted")
    assert verdict(judged(gates)) == "pass"
    assert verdict(judged(gates, finding=CONTAMINATED)) == "fail"
    assert verdict(judged(gates, finding=other)) == "pass"


def test_what_fails_once_and_passes_again_is_cleared_and_what_fails_twice_is_not() -> None:
    gates = gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03}}, validity={})
    first = judged(gates, slower=1.1)
    cleared = confirmed(first, judged(gates))
    assert verdict(cleared) == "pass"
    assert [g.cleared for g in cleared.gates] == [True, False]
    assert verdict(confirmed(first, judged(gates, slower=1.1))) == "fail"


def test_validity_is_not_cleared_by_another_run() -> None:
    gates = gate(validity={})
    assert verdict(confirmed(judged(gates, failed=1), judged(gates))) == "fail"


def test_a_failure_outweighs_what_could_not_be_measured() -> None:
    gates = gate(
        regressions={"it": {"metric": "tpot_s", "max_loss": 0.03, "arms": ["dflash2"]}},
        floors={"low": {"metric": "acceptance_length", "min": 3.9}},
    )
    assert exit_code(judged(gates)) == 1
