"""tiny-next is an instrument: on the real engine its acceptance lies where real models' does, and answers are right."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from specdeck.load.loop import run_load
from specdeck.load.prompts import load_prompts
from specdeck.results.schema import RequestRecord, Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

Answers = dict[str, tuple[RequestRecord, ...]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def answers(live: Callable[[str], Awaitable[Live]], root: Path) -> Answers:
    """Greedy answers of every arm to the plan's prompts, four at a time."""
    prompts = load_prompts(root / "bench" / "prompts" / "tiny-next.jsonl")
    sampling = Sampling(temperature=0.0, max_tokens=64)
    found: Answers = {}
    for arm in ("none", "mtp", "dflash2"):
        target = (await live(arm)).target
        load = await run_load(target, prompts, concurrency=4, sampling=sampling, request_timeout_s=120)
        assert not [record.error for record in load.records if record.error]
        found[arm] = tuple(load.records)
    return found


def _length(records: tuple[RequestRecord, ...]) -> float:
    steps = sum(record.spec.num_spec_steps for record in records if record.spec)
    return 1 + sum(record.spec.num_accepted_draft_tokens for record in records if record.spec) / steps


@pytest.mark.parametrize(("arm", "low", "high"), [("mtp", 2.2, 3.3), ("dflash2", 3.5, 5.5)])
async def test_acceptance_length_lies_where_real_models_lie(
    answers: Answers, arm: str, low: float, high: float
) -> None:
    assert low <= _length(answers[arm]) <= high


@pytest.mark.parametrize("arm", ["mtp", "dflash2"])
async def test_categories_are_at_least_half_a_token_apart(answers: Answers, arm: str) -> None:
    categories = {record.category for record in answers[arm]}
    assert categories == {"math", "code", "chat"}
    lengths = [_length(tuple(r for r in answers[arm] if r.category == category)) for category in categories]
    assert max(lengths) - min(lengths) >= 0.5


@pytest.mark.parametrize(("arm", "n"), [("mtp", 3), ("dflash2", 7)])
async def test_acceptance_falls_from_position_to_position(answers: Answers, arm: str, n: int) -> None:
    totals = [0] * (n + 1)
    for record in answers[arm]:
        assert record.spec is not None
        totals = [a + b for a, b in zip(totals, record.spec.acceptance_histogram, strict=True)]
    rates = [sum(totals[i + 1 :]) / sum(totals) for i in range(n)]
    assert all(a >= b for a, b in itertools.pairwise(rates))
    assert rates[0] < 0.99
    assert rates[-1] > 0.05


@pytest.mark.parametrize("arm", ["mtp", "dflash2"])
async def test_nearly_all_greedy_answers_are_those_of_the_target_alone(answers: Answers, arm: str) -> None:
    same = [a.text_sha256 == b.text_sha256 for a, b in zip(answers["none"], answers[arm], strict=True)]
    assert sum(same) / len(same) >= 0.95
