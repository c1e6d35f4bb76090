"""The command line's words for a plan's keys change the plan that is measured, and its fingerprint."""

from __future__ import annotations

import pytest

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.run.options import resolve

URLS = ["http://127.0.0.1:1"]


def test_rate_burstiness_concurrency_and_number_of_prompts_replace_the_plans() -> None:
    plain = resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS)
    changed = resolve(
        repo_root(),
        recipe_name=None,
        plan_name="smoke",
        base_urls=URLS,
        request_rate=2.5,
        burstiness=0.5,
        max_concurrency=[8, 16, 8],
        num_prompts=4,
    )
    plan = changed.plan
    assert (plan.request_rate, plan.burstiness, plan.concurrency, plan.limit) == (2.5, 0.5, (8, 16), 4)
    assert len(changed.prompts) == 4
    assert (plain.plan.request_rate, plain.plan.concurrency) == (None, (1,))
    assert plain.fingerprint({}) != changed.fingerprint({})


def test_more_prompts_than_there_are_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(SpecdeckError, match="5000 prompts asked for, the set has") as caught:
        resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, num_prompts=5000)
    assert "--num-prompts" in str(caught.value)
