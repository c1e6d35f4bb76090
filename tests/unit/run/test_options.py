"""The command line's words for a plan's keys change the plan that is measured, and its fingerprint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target, request_body
from specdeck.paths import repo_root
from specdeck.run.options import resolve
from specdeck.run.plan_changes import goodput_limits, workers_wanted

if TYPE_CHECKING:
    from pathlib import Path

URLS = ["http://127.0.0.1:1"]


def test_rate_burstiness_concurrency_and_number_of_prompts_replace_the_plans() -> None:
    plain = resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS)
    changed = resolve(
        repo_root(),
        recipe_name=None,
        plan_name="smoke",
        base_urls=URLS,
        changes={"request_rate": 2.5, "burstiness": 0.5, "concurrency": [8, 16], "limit": 4, "seed": None},
    )
    plan = changed.plan
    assert (plan.request_rate, plan.burstiness, plan.concurrency, plan.limit) == (2.5, 0.5, (8, 16), 4)
    assert len(changed.prompts) == 4
    assert (plain.plan.request_rate, plain.plan.concurrency) == (None, (1,))
    assert plain.fingerprint({}) != changed.fingerprint({})


def test_more_prompts_than_there_are_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(SpecdeckError, match="5000 prompts asked for, the set has") as caught:
        resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, changes={"limit": 5000})
    assert "--num-prompts" in str(caught.value)


def test_every_sampling_parameter_reaches_the_requests() -> None:
    changes = {
        "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "seed": 3, "ignore_eos": True,
        "enable_thinking": False,
    }  # fmt: skip
    options = resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, changes=changes)
    body = orjson.loads(request_body(Target("http://h", "m"), options.prompts[0], options.sampling))
    sent = {**body, "enable_thinking": body["chat_template_kwargs"]["enable_thinking"]}
    assert {key: sent[key] for key in changes} == changes


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"top_p": 0.0}, "top_p"),
        ({"enable_thinking": True, "endpoint": "completions"}, "enable_thinking"),
        ({"goodput": {}}, "goodput"),
        ({"workers": "many"}, "workers"),
        ({"workers": 0}, "workers"),
    ],
)
def test_a_change_that_the_plan_does_not_allow_is_refused_with_its_key(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecdeckError) as caught:
        resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, changes=changes)
    assert f"plan key {told}" in str(caught.value)
    assert "Fix:" in str(caught.value)


def test_goodput_limits_are_read_as_vllm_spells_them() -> None:
    assert goodput_limits([]) is None
    assert goodput_limits(["ttft:200", "tpot:50.5"]) == {"ttft": 200.0, "tpot": 50.5}
    for wrong in (["ttft"], ["itl:3"], ["ttft:0"], ["ttft:nan"], ["ttft:inf"], ["tpot:1", "tpot:2"]):
        with pytest.raises(SpecdeckError, match="no limit of a good request"):
            goodput_limits(wrong)


RANDOM: dict[str, Any] = {"workload": {"kind": "random", "words": 30}}


def _random(recipe: str | None, urls: list[str], arms: list[str], changes: dict[str, Any] = RANDOM) -> set[str]:
    options = resolve(repo_root(), recipe_name=recipe, plan_name="smoke", base_urls=urls, arms=arms, changes=changes)
    return {prompt.category for prompt in options.prompts}


def test_random_text_is_refused_for_arms_that_draft_or_may_unless_it_is_asked_for() -> None:
    for recipe, urls in (("tiny-next-cpu", []), (None, ["a=http://127.0.0.1:1", "b=http://127.0.0.1:2"])):
        with pytest.raises(SpecdeckError, match="random text for") as caught:
            _random(recipe, list(urls), [])
        assert "with_drafters: true" in str(caught.value)
    asked = {"workload": {**RANDOM["workload"], "with_drafters": True}}
    assert _random("tiny-next-cpu", [], ["none"]) == {"random"}
    assert _random("tiny-next-cpu", [], [], asked) == {"random"}
    assert _random(None, URLS, []) == {"random"}


def test_a_hub_data_set_needs_a_commit_and_a_file_that_can_be_read() -> None:
    commit = "0" * 40
    for wrong in ("hf:o/n@main:a.jsonl", "hf:o/n:a.jsonl", f"hf:o/n@{commit}:a.parquet", f"hf:o/n@{commit}:../a.csv"):
        with pytest.raises(SpecdeckError, match="names no file of a data set"):
            resolve(repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, prompts=wrong)


def test_follow_ups_are_sent_only_by_a_plan_with_turns_and_only_in_a_closed_chat(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text('{"id": "t", "category": "c", "prompt": "one", "follow_ups": ["two"]}\n')

    def prompts(**changes: Any) -> list[tuple[str, ...]]:
        options = resolve(
            repo_root(), recipe_name=None, plan_name="smoke", base_urls=URLS, prompts=str(path), changes=changes
        )
        return [prompt.follow_ups for prompt in options.prompts]

    assert prompts() == [()]
    assert prompts(multi_turn=True) == [("two",)]
    for wrong in ({"endpoint": "completions"}, {"request_rate": 1.0}):
        with pytest.raises(SpecdeckError, match="plan key multi_turn"):
            prompts(multi_turn=True, **wrong)


def test_processes_are_auto_or_a_number_and_anything_else_says_so() -> None:
    assert [workers_wanted(word) for word in (None, "auto", "1", "256")] == [None, "auto", 1, 256]
    for wrong in ("many", "0", "257", "-1", "1.5", "", "٣"):
        with pytest.raises(SpecdeckError, match="no number of processes"):
            workers_wanted(wrong)
