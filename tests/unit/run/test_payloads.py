"""Payloads as vLLM makes them pass the audit; any single figure that is changed is found."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs import payload, record

from specdeck.results.schema import SpecPayload
from specdeck.run.payloads import audit, contradiction

STEPS = st.lists(st.integers(0, 4), min_size=1, max_size=30)
SOUND = SpecPayload(
    num_spec_steps=3, num_accepted_draft_tokens=5, num_draft_tokens=12, num_spec_tokens=4,
    acceptance_histogram=(1, 0, 1, 1, 0), per_step_accepted=(0, 2, 3), per_step_drafted=(4, 4, 4),
)  # fmt: skip


@given(STEPS, st.integers(0, 3))
def test_any_answer_that_was_really_drafted_passes(steps: list[int], plain: int) -> None:
    tokens = sum(steps) + len(steps) + plain
    assert contradiction(payload(*steps, n=4), tokens, 4) is None


@pytest.mark.parametrize(
    ("change", "tokens", "says"),
    [
        ({"num_spec_steps": 4}, 9, "a histogram of 3 steps for 4"),
        ({"num_accepted_draft_tokens": 6}, 9, "a histogram of 5 accepted tokens for 6"),
        ({"num_accepted_draft_tokens": 13}, 9, "13 tokens accepted of 12 drafted"),
        ({"num_draft_tokens": 13}, 9, "13 tokens drafted in 3 steps of 4"),
        ({"num_spec_tokens": 5}, 9, "drafts of 5 tokens, the arm's are of 4"),
        ({"acceptance_histogram": (4, 0, 1, 1, -3)}, 9, "a count below 0"),
        ({"per_step_accepted": (0, 2, 2)}, 9, "accepted tokens by step"),
        ({"per_step_accepted": (5,)}, 9, "accepted tokens by step"),
        ({"per_step_drafted": (4, 4, 3)}, 9, "drafted tokens by step"),
        ({}, 2, "2 tokens from 3 steps"),
    ],
)
def test_a_figure_that_cannot_be_true_is_named(change: dict[str, Any], tokens: int, says: str) -> None:
    assert contradiction(SOUND, 9, 4) is None
    assert says in (contradiction(msgspec.structs.replace(SOUND, **change), tokens, 4) or "")


def test_what_is_not_told_is_not_compared() -> None:
    bare = SpecPayload(num_spec_steps=3, num_accepted_draft_tokens=5, num_draft_tokens=12)
    assert contradiction(bare, None, 7) is None


def test_failed_answers_and_those_without_a_payload_are_not_looked_at() -> None:
    wrong = msgspec.structs.replace(SOUND, num_spec_steps=9)
    assert audit([record(failed=True, spec=wrong), record(spec=None)], 4) is None
    assert "1 of 2 answers" in (audit([record("a", spec=SOUND), record("b", spec=wrong)], 4) or "")
