"""Stages and traces: every moment where it was asked for, the same for the same seed, damaged files named by line."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdeck.errors import SpecdeckError
from specdeck.load.stages import Moment, Stage, read_trace, staged

if TYPE_CHECKING:
    from pathlib import Path

RATES = st.floats(0.1, 1000)


@given(RATES, RATES, st.integers(1, 300), st.integers(0, 3))
def test_moments_ascend_and_stay_within_their_stages_time(rate: float, to: float, count: int, seed: int) -> None:
    stages = [Stage.of(rate, to, requests=count), Stage.of(to, requests=count)]
    moments = staged(stages, seed)
    assert [moment.stage for moment in moments] == [1] * count + [2] * count
    assert all(a.due_s <= b.due_s + 1e-9 for a, b in pairwise(moments))
    assert all(0 <= m.due_s < stages[0].duration_s for m in moments[:count])
    assert moments[count].due_s == pytest.approx(stages[0].duration_s)
    assert moments == staged(stages, seed)


def test_a_ramp_has_as_many_requests_in_each_part_as_the_area_under_its_rate() -> None:
    stage = Stage.of(0.001, 20.0, burstiness=1e6, duration_s=100.0)
    due = stage.due_s(0)
    assert stage.requests == 1000
    assert stage.duration_s == pytest.approx(100.0, rel=1e-3)
    assert sum(at < 50 for at in due) == pytest.approx(250, abs=2), "half the time is a quarter of the triangle"
    falling = Stage.of(20.0, 0.001, burstiness=1e6, duration_s=100.0).due_s(0)
    assert sum(at < 50 for at in falling) == pytest.approx(750, abs=2)


def test_a_budget_in_seconds_is_rounded_to_whole_requests_and_is_at_least_one() -> None:
    assert Stage.of(4.0, duration_s=2.6).requests == 10
    assert Stage.of(0.1, duration_s=1.0).requests == 1
    assert Stage.of(5.0, requests=10).duration_s == 2.0


def test_a_trace_starts_at_zero_whatever_its_clock_and_keeps_output_budgets(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"timestamp": 1700, "input_length": 9, "hash_ids": [1]}\n\n{"timestamp": 3200.5, "output_length": 7}\n'
    )
    assert read_trace(path) == (Moment(0.0), Moment(1.5005, None, 7))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"timestamp": 2}\n{"timestamp": 1}\n', "t.jsonl:2"),
        ('{"time": 2}\n', "timestamp"),
        ('{"timestamp": 1, "output_length": 0}\n', "output_length is 0"),
        ('{"timestamp": "soon"}\n', "t.jsonl:1"),
        ('{"timestamp": 1e999}\n', "t.jsonl:1"),
        ("\xff\n", "t.jsonl:1"),
        ("\n", "empty"),
    ],
)
def test_a_damaged_trace_is_refused_with_the_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecdeckError) as caught:
        read_trace(path)
    assert told in str(caught.value)
    assert "Fix:" in str(caught.value)
    with pytest.raises(SpecdeckError, match="cannot be read"):
        read_trace(tmp_path / "missing.jsonl")
