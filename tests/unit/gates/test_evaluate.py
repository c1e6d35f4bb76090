"""Every kind of gate: a candidate that it lets pass, one that it fails, and one that it cannot judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.sides import measured, with_floors

from specdeck.gates.confirm import confirmed
from specdeck.gates.evaluate import evaluate
from specdeck.gates.models import GateFile, load_gates
from specdeck.gates.outcome import GateVerdict, Outcome, exit_code, verdict
from specdeck.results.quality import CheckResult
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


TPOT = {"regressions": {"it": {"metric": "tpot_s", "max_loss": 0.03}}, "validity": {}}


def again(gates: GateFile, name: str = "again", seed: int = 3, **candidate: Any) -> Outcome:
    return evaluate(BASE, measured(name, seed=seed, **candidate), gates)


def test_what_fails_once_and_passes_again_is_cleared_and_what_fails_twice_is_not() -> None:
    gates = gate(**TPOT)
    first = judged(gates, slower=1.1)
    cleared = confirmed(first, [again(gates)], gates.confirm)
    assert verdict(cleared) == "pass"
    assert [g.cleared for g in cleared.gates] == [True, False]
    assert verdict(confirmed(first, [again(gates, slower=1.1)], gates.confirm)) == "fail"


def test_only_the_row_that_failed_can_clear_itself() -> None:
    """Another row of the same gate that fails in the repetition is an alarm of its own, not a confirmation."""
    gates = gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03}})
    first = judged(gates, slower=1.1, slow_arms=("mtp",))
    other = again(gates, slower=1.1, slow_arms=("none",))
    assert (verdict(first), verdict(other)) == ("fail", "fail")
    assert verdict(confirmed(first, [other], gates.confirm)) == "pass"


def test_a_row_that_was_not_measured_again_stays_failed() -> None:
    gates = gate(regressions={"it": {"metric": "tpot_s", "max_loss": 0.03}})
    first = judged(gates, slower=1.1, slow_arms=("mtp",))
    assert first.measure_again == ("mtp",)
    assert verdict(confirmed(first, [again(gates, arms=("none",))], gates.confirm)) == "fail"
    assert verdict(confirmed(first, [again(gates, arms=("mtp",))], gates.confirm)) == "pass"


def test_a_gate_whose_other_rows_are_unmeasurable_is_not_passed_by_clearing_the_failed_one() -> None:
    gates = gate(floors={"it": {"metric": "acceptance_length", "min": 2.45, "arms": ["mtp", "dflash2"]}})
    first = judged(gates, accepted=1)
    assert verdict(first) == "fail"
    assert verdict(confirmed(first, [again(gates)], gates.confirm)) == "unmeasurable"


def test_a_failure_is_measured_again_as_often_as_the_gate_file_says_and_no_more() -> None:
    twice = gate(**TPOT, confirm=2)
    first = judged(twice, slower=1.1)
    once = confirmed(first, [again(twice, slower=1.1)], twice.confirm)
    assert once.measure_again == ("none", "mtp")
    both = confirmed(first, [again(twice, slower=1.1), again(twice, "third", 4, slower=1.1)], twice.confirm)
    assert (verdict(both), both.measure_again) == ("fail", ())
    assert judged(gate(**TPOT, confirm=0), slower=1.1).measure_again == ()
    assert judged(gate(**TPOT)).measure_again == ()


def test_validity_is_not_cleared_by_another_run_so_none_is_asked_for() -> None:
    gates = gate(**TPOT)
    first = judged(gates, failed=1, slower=1.1)
    assert first.measure_again == ()
    assert verdict(confirmed(first, [again(gates)], gates.confirm)) == "fail"


def check(arm: str, verdict_: GateVerdict = "pass", name: str = "gsm8k") -> CheckResult:
    reason = None if verdict_ == "pass" else "the answers changed"
    return CheckResult(
        check=name, arm=arm, verdict=verdict_, n=200, value=0.9, interval=(0.85, 0.94), reference=0.95, reason=reason
    )


@pytest.mark.parametrize(
    ("checks", "says", "why"),
    [
        ([check("none"), check("mtp")], "pass", "gsm8k passed for mtp, none"),
        (
            [check("none"), check("mtp", "fail")],
            "fail",
            "gsm8k of mtp is 0.900 [0.850–0.940] (reference 0.950, n = 200)",
        ),
        ([check("none"), check("mtp", "unmeasurable")], "unmeasurable", "the answers changed"),
        ([check("none")], "unmeasurable", "gsm8k of mtp: there is no result"),
        ([check("none", name="needle"), check("mtp", name="needle")], "unmeasurable", "there is no result"),
        ([], "unmeasurable", "there is no result"),
    ],
)
def test_a_named_quality_check_must_be_there_and_pass_for_every_arm(
    checks: list[CheckResult], says: str, why: str
) -> None:
    found = judged(gate(quality={"answers": {"check": "gsm8k"}}), quality=tuple(checks))
    assert (verdict(found), found.gates[0].kind) == (says, "quality")
    assert why in found.gates[0].summary


def test_a_quality_gate_on_some_arms_looks_at_no_others() -> None:
    gates = gate(quality={"answers": {"check": "gsm8k", "arms": ["mtp"]}})
    assert verdict(judged(gates, quality=(check("mtp"), check("none", "fail")))) == "pass"
    assert verdict(judged(gates, quality=(check("mtp", "fail"),))) == "fail"


@pytest.mark.parametrize(("stored", "says"), [("pass", "pass"), ("fail", "fail"), ("unmeasurable", "unmeasurable")])
def test_the_default_gates_judge_every_stored_check_and_are_silent_where_there_is_none(
    stored: GateVerdict, says: str
) -> None:
    gates = load_gates("default")
    assert verdict(judged(gates, quality=(check("mtp", stored, "needle"),))) == says
    assert "quality" not in {result.kind for result in judged(gates).gates}
    assert verdict(judged(gate(quality={"all": {}}))) == "unmeasurable"


def test_a_failure_outweighs_what_could_not_be_measured() -> None:
    gates = gate(
        regressions={"it": {"metric": "tpot_s", "max_loss": 0.03, "arms": ["dflash2"]}},
        floors={"low": {"metric": "acceptance_length", "min": 3.9}},
    )
    assert exit_code(judged(gates)) == 1
