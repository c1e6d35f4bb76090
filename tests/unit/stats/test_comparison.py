"""Comparing two measurements: exact figures, honest verdicts, and error rates in simulated experiments."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from support.runs import Cells, cell, counters_of, payload, record, whole_run

from specdeck.gates.models import load_gates
from specdeck.recipe import load_plan
from specdeck.stats.comparison import Key, compare, is_worse, noise_floors, size
from specdeck.stats.contrast import Side, contrast, false_discovery, p_value
from specdeck.stats.sample import samples
from specdeck.stats.simulation import MAX_LOSS, SHAPES, Shape, Size, simulate


def timed(factor: float, *, prompts: int = 12, rounds: int = 2, accepted: int = 2, skip: int | None = None) -> Cells:
    """Exact cells without noise: every time of prompt i is (1 + i / 10) × factor."""
    cells: Cells = []
    for number in range(1, rounds + 1):
        records = [
            record(
                f"p{i:02d}",
                index=i,
                first=0.5 * factor * (1 + i / 10),
                last=1.5 * factor * (1 + i / 10),
                end=2.0 * factor * (1 + i / 10),
                spec=payload(accepted, 1, n=3),
            )
            for i in range(prompts)
            if not (i == skip and number == rounds)
        ]
        made = cell(
            "mtp",
            round_=number,
            duration=sum(r.end_s for r in records),
            counters=counters_of(records, 3),
            records=records,
        )
        cells.append((made, records))
    return cells


def test_a_uniform_slowdown_is_measured_exactly_and_called_worse() -> None:
    found = compare(samples(timed(1.0)), samples(timed(1.25)))
    by_metric = {effect.key.metric: effect for effect in found.effects if effect.key.position is None}
    assert by_metric["output_tok_s"].value == pytest.approx(1 / 1.25)
    assert by_metric["ttft_s"].value == pytest.approx(1.25)
    assert by_metric["tpot_s"].value == pytest.approx(1.25)
    assert {by_metric[name].verdict for name in ("output_tok_s", "ttft_s", "tpot_s")} == {"worse"}
    assert by_metric["acceptance_length"].value == 0
    assert by_metric["acceptance_length"].verdict == "no change"


def test_the_shown_figures_are_those_of_the_report_and_their_quotient_is_the_ratio() -> None:
    found = compare(samples(timed(1.0)), samples(timed(2.0))).effects[0]
    assert found.key == Key(arm="mtp", concurrency=1, metric="output_tok_s")
    tokens, seconds = 2 * 12 * 11, 2 * sum(2.0 * (1 + i / 10) for i in range(12))
    assert found.base == pytest.approx(tokens / seconds)
    assert found.candidate == pytest.approx(tokens / seconds / 2)


def test_lost_acceptance_is_a_difference_by_length_and_position() -> None:
    found = compare(samples(timed(1.0, accepted=3)), samples(timed(1.0, accepted=1)))
    moved = {(e.key.metric, e.key.position): e.value for e in found.effects if e.kind == "difference"}
    assert moved == {
        ("acceptance_length", None): pytest.approx(-1.0),
        ("acceptance_at", 1): pytest.approx(0.0),
        ("acceptance_at", 2): pytest.approx(-0.5),
        ("acceptance_at", 3): pytest.approx(-0.5),
    }


def test_a_prompt_missing_from_one_round_of_one_side_is_in_no_figure() -> None:
    found = compare(samples(timed(1.0)), samples(timed(1.0, skip=11)))
    assert {effect.prompts for effect in found.effects} == {11}
    assert found.effects[0].value == pytest.approx(1.0)


def test_what_only_one_side_measured_is_said_and_not_compared() -> None:
    base, candidate = samples(whole_run(seed=1)[1]), samples(whole_run(arms=("none", "mtp"), seed=2)[1])
    found = compare(base, candidate)
    assert {effect.key.arm for effect in found.effects} == {"none", "mtp"}
    assert [note.message for note in found.notes] == [
        f"the candidate has no valid cell of dflash2 at concurrency {at}" for at in (1, 4)
    ]


def test_an_arm_without_a_drafter_has_no_acceptance_row_and_five_prompts_give_no_verdict() -> None:
    found = compare(samples(whole_run(seed=1, prompts=5)[1]), samples(whole_run(seed=2, prompts=5)[1]))
    assert {e.key.metric for e in found.effects if e.key.arm == "none"} == {"output_tok_s", "ttft_s", "tpot_s"}
    assert {e.verdict for e in found.effects} == {"not known"}
    assert all(e.reason == "5 prompts in common are too few" for e in found.effects)


def test_without_payloads_acceptance_is_not_known_with_the_option_that_helps() -> None:
    made = samples(whole_run(payloads=False, arms=("mtp",))[1])
    [found] = [e for e in compare(made, made).effects if e.key.metric == "acceptance_length" and e.key.concurrency == 1]
    assert found.verdict == "not known"
    assert "--per-request-spec-decode-metrics" in (found.reason or "")


def test_no_row_is_worse_by_a_move_within_its_floor() -> None:
    base, candidate = samples(timed(1.0)), samples(timed(1.25))
    key = Key(arm="mtp", concurrency=1, metric="tpot_s")
    assert {e.key: e for e in compare(base, candidate, {key: 0.24}).effects}[key].verdict == "worse"
    within = {e.key: e for e in compare(base, candidate, {key: 0.26}).effects}[key]
    assert (within.verdict, within.floor) == ("no change", 0.26)


def test_the_floor_is_the_far_end_of_the_repetitions_interval_on_either_side() -> None:
    same = compare(samples(timed(1.0)), samples(timed(1.25)))
    floors = noise_floors(same)
    assert floors[Key(arm="mtp", concurrency=1, metric="tpot_s")] == pytest.approx(0.25)
    assert floors[Key(arm="mtp", concurrency=1, metric="output_tok_s")] == pytest.approx(0.25)


def test_size_and_direction_of_a_move_know_which_way_is_good() -> None:
    effects = {e.key.metric: e for e in compare(samples(timed(1.0)), samples(timed(0.5))).effects}
    assert not is_worse(effects["tpot_s"])
    assert not is_worse(effects["output_tok_s"])
    assert size(effects["tpot_s"]) == pytest.approx(1.0)
    assert is_worse(replace(effects["tpot_s"], value=1.01))


def test_false_discovery_adjustment_equals_the_hand_computed_one() -> None:
    # Sorted: 0.01 × 4/1, 0.02 × 4/2, 0.03 × 4/3, 0.5 × 4/4, then the running minimum from the right.
    assert false_discovery(np.array([0.5, 0.03, 0.01, 0.02])) == pytest.approx([0.5, 0.04, 0.04, 0.04])
    assert len(false_discovery(np.array([]))) == 0


def test_the_p_value_is_one_without_a_difference_and_zero_for_a_certain_one() -> None:
    assert p_value(np.zeros(100), 0.0, 10, 9) == 1.0
    assert p_value(np.ones(100), 1.0, 10, 9) == 0.0


def test_drift_of_rounds_widens_the_interval_and_noise_of_requests_alone_does_not() -> None:
    generator = np.random.default_rng(3)

    def side(drift: float) -> Side:
        rows = generator.normal(0, 0.02, (30, 3)) + drift * np.array([-1.0, 0.0, 1.0])
        return Side(np.stack([rows.mean(axis=1), np.ones(30)], axis=1), rows)

    calm = contrast(side(0.0), side(0.0), lambda s: s[:, 0] / s[:, 1])
    drifting = contrast(side(0.05), side(0.05), lambda s: s[:, 0] / s[:, 1])
    assert calm is not None
    assert drifting is not None
    assert calm.interval is not None
    assert drifting.interval is not None
    assert calm.drift == pytest.approx(0.0, abs=0.005)
    assert drifting.drift == pytest.approx(0.05 * np.sqrt(2 / 3), rel=0.15)
    assert drifting.interval.hi - drifting.interval.lo > 4 * (calm.interval.hi - calm.interval.lo)


def in_one_piece(cells: Cells, count: int) -> Cells:
    """The cells with the first `count` prompts of round 2 answered by a single chunk: they have no TPOT."""
    made, records = cells[1]
    whole = [replace(r, last_token_s=r.first_token_s) if r.index < count else r for r in records]
    return [cells[0], (made, whole)]


def test_an_answer_in_one_piece_leaves_its_prompt_out_of_tpot_and_not_the_row() -> None:
    found = compare(samples(timed(1.0)), samples(in_one_piece(timed(1.25), 2)))
    by_metric = {e.key.metric: e for e in found.effects if e.key.position is None}
    assert (by_metric["tpot_s"].prompts, by_metric["ttft_s"].prompts) == (10, 12)
    assert by_metric["tpot_s"].value == pytest.approx(1.25)
    assert [note.code for note in found.notes] == ["thin-row"]
    assert "2 of 12 prompts lack a TPOT" in found.notes[0].message


def test_a_time_that_no_prompt_has_is_not_known_and_says_so() -> None:
    found = compare(samples(timed(1.0)), samples(in_one_piece(timed(1.25), 12)))
    tpot = next(e for e in found.effects if e.key.metric == "tpot_s")
    assert tpot.verdict == "not known"
    assert tpot.reason == "no prompt has a TPOT in every round of both sides"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_simulated_experiments_keep_coverage_false_alarms_and_power(shape: Shape) -> None:
    """80 experiments a shape with the bounds three standard errors wide; docs/method.md has 2,000 of each."""
    found = simulate(shape, experiments=80, size=Size(concurrency=(1,)))
    assert 0.89 <= found.coverage <= 0.99
    assert found.false_alarms <= 0.05
    assert found.row >= 0.65


def test_the_simulation_has_the_size_of_the_plan_and_the_limits_of_the_gates_that_it_speaks_for() -> None:
    plan, gates = load_plan("regression"), load_gates("default")
    assert Size() == Size(prompts=plan.limit or 0, rounds=plan.rounds, concurrency=plan.concurrency)
    assert {gates.regressions[name].max_loss for name in ("throughput", "time-per-output-token")} == {MAX_LOSS}
