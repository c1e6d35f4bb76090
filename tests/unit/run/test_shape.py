"""A plan's load shape decides how many requests there are, which prompts they carry, and when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.load.prompts import Prompt
from specdeck.load.stages import Moment, Stage
from specdeck.paths import repo_root
from specdeck.run.options import resolve
from specdeck.run.shape import Shape, asked_rate, one_a_request

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.run.options import Options

PROMPTS = [Prompt(id=f"p{n}", category="c", prompt=f"question {n}") for n in range(3)]


def _resolve(**changes: Any) -> Options:
    return resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=["http://127.0.0.1:1"], changes=changes)


def test_a_closed_loop_has_one_request_a_prompt_and_no_moments() -> None:
    assert Shape().moments(3, seed=1) is None
    assert one_a_request(PROMPTS, Shape(), repeat=False, where="x") == tuple(PROMPTS)


def test_more_requests_than_prompts_need_leave_to_repeat_them() -> None:
    shape = Shape(stages=(Stage.of(1.0, requests=5),))
    with pytest.raises(SpecdeckError, match="the load has 5 requests, the set 3 prompts") as caught:
        one_a_request(PROMPTS, shape, repeat=False, where="x")
    assert "repeat_prompts: true" in str(caught.value)
    sent = one_a_request(PROMPTS, shape, repeat=True, where="x")
    assert [prompt.id for prompt in sent] == ["p0", "p1", "p2", "p0", "p1"]


def test_a_traces_output_budgets_go_with_their_requests() -> None:
    shape = Shape(trace=(Moment(0.0, None, 7), Moment(1.0)))
    assert [prompt.max_tokens for prompt in one_a_request(PROMPTS, shape, repeat=False, where="x")] == [7, None]
    assert shape.moments(2, seed=5) == shape.trace
    assert asked_rate(shape.trace) == 1.0
    assert asked_rate(shape.trace[:1]) is None


def test_stages_of_a_plan_are_resolved_to_requests_and_part_of_what_a_run_is() -> None:
    plain = _resolve(limit=3)
    staged = _resolve(stages=[{"request_rate": 2.0, "requests": 4}, {"request_rate": 4.0, "duration_s": 1.5}], limit=10)
    assert staged.shape.requests == len(staged.prompts) == 10
    assert len({prompt.id for prompt in staged.prompts}) == 10
    assert staged.fingerprint({}) != plain.fingerprint({})


def test_a_changed_trace_file_is_another_experiment(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    found = []
    for budget in (4, 5):
        path.write_text(f'{{"timestamp": 0}}\n{{"timestamp": 10, "output_length": {budget}}}\n')
        found.append(_resolve(trace=str(path)).fingerprint({}))
    assert found[0] != found[1]


def test_a_load_that_takes_longer_than_a_cell_may_is_refused_before_anything_starts() -> None:
    with pytest.raises(SpecdeckError, match="the load alone takes 1000 s, a cell may take 600 s"):
        _resolve(stages=[{"request_rate": 0.001, "requests": 1}])


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stages": [{"request_rate": 1.0}]}, "a stage has one budget"),
        ({"stages": [{"request_rate": 1.0, "requests": 1, "duration_s": 1.0}]}, "a stage has one budget"),
        ({"stages": [{"request_rate": 1.0, "requests": 1}], "request_rate": 2.0}, "a shape already"),
        ({"trace": "t.jsonl", "ramp_up_s": 2.0}, "a shape already"),
        ({"repeat_prompts": True}, "each prompt is sent once"),
    ],
)
def test_a_load_of_two_shapes_or_a_stage_of_two_budgets_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecdeckError, match=told):
        _resolve(**changes)
