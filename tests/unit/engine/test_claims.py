"""A server that is not the arm it is said to be is found out; what cannot be known is never called checked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdeck.engine.claims import Evidence, Expectation, check
from specdeck.engine.logfacts import LogFacts, read_log
from specdeck.errors import SpecdeckError
from specdeck.recipe.load import parse_recipe
from specdeck.telemetry.counters import Snapshot

LOGS = Path(__file__).with_name("logs")
DFLASH2 = Expectation("dflash2", "dflash", 7, "DFlash2DraftModel", (1, 3, 4), "==0.32.0")
MTP = Expectation("mtp", "mtp", 3, vllm="==0.32.0")
NONE = Expectation("none", None, None, vllm="==0.32.0")


def facts(name: str) -> LogFacts:
    return read_log((LOGS / f"{name}.log").read_text().splitlines())


def metrics(n: int | None, drafts: int = 0) -> Snapshot:
    labels = '{engine="0",model_name="tiny"}'
    lines = [f"vllm:num_requests_running{labels} 0.0", f"vllm:generation_tokens_total{labels} 24.0"]
    if n is not None:
        lines.append(f"vllm:spec_decode_num_drafts_total{labels} {drafts}.0")
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="tiny",position="{i}"}} 1.0'
            for i in range(n)
        ]
    return Snapshot.parse("\n".join(lines) + "\n", "tiny")


def seen(log: str | LogFacts | None, n: int | None, drafts: int = 9, **other: Any) -> Evidence:
    evidence = Evidence(
        log=facts(log) if isinstance(log, str) else log,
        log_text="",
        model="tiny",
        models=("tiny",),
        version="0.32.0",
        before=metrics(n),
        after=metrics(n, drafts),
        payload={"num_spec_tokens": n} if n else None,
        completion_tokens=24,
    )
    return replace(evidence, **other)


def failed(expected: Expectation, evidence: Evidence) -> dict[str, str]:
    return {claim.claim: claim.detail for claim in check(expected, evidence) if claim.status == "failed"}


@pytest.mark.parametrize(
    ("expected", "evidence"),
    [(DFLASH2, seen("dflash2", 7)), (MTP, seen("mtp", 3)), (NONE, seen("none", None))],
)
def test_an_arm_that_is_what_it_claims_passes_every_claim(expected: Expectation, evidence: Evidence) -> None:
    assert {claim.status for claim in check(expected, evidence)} == {"passed"}


def test_the_log_of_the_real_engine_is_read_whole() -> None:
    found = facts("dflash2")
    assert found.architectures == ("Qwen3NextForCausalLM", "DFlash2DraftModel")
    assert (found.method, found.num_speculative_tokens, found.aux_layer_ids) == ("dflash", 7, (1, 3, 4))
    assert found.version == "0.32.0"
    assert found.v2_runner
    assert found.kv_cache_tokens is not None


def test_an_arm_without_drafter_whose_server_drafts_fails() -> None:
    wrong = failed(NONE, seen("mtp", 3))
    assert "drafts with 'mtp'" in wrong["method"]
    assert "9 so far" in wrong["drafts"]


def test_an_arm_without_drafter_fails_by_counters_alone_when_attached() -> None:
    assert set(failed(NONE, seen(None, 3, drafts=0))) == {"drafts"}


def test_a_dflash_arm_that_drafts_by_mtp_fails() -> None:
    wrong = failed(DFLASH2, seen("mtp", 3))
    assert "drafts with mtp, not dflash" in wrong["method"]
    assert "Qwen3NextMTP, expected DFlash2DraftModel" in wrong["drafter architecture"]
    assert "3 tokens a step, the arm says 7" in wrong["num_speculative_tokens (metrics)"]


def test_an_mtp_arm_that_drafts_by_dflash_fails() -> None:
    assert {"method", "drafter architecture"} <= set(failed(MTP, seen("dflash2", 7)))


def test_a_dflash2_arm_served_with_an_older_dflash_drafter_fails() -> None:
    log = replace(facts("dflash2"), architectures=("Qwen3NextForCausalLM", "DFlashDraftModel"))
    assert set(failed(DFLASH2, seen(log, 7))) == {"drafter architecture"}


def test_a_drafter_that_reads_the_wrong_layers_fails() -> None:
    log = replace(facts("dflash2"), aux_layer_ids=(0, 2, 3))
    assert "(taps + 1)" in failed(DFLASH2, seen(log, 7))["auxiliary layers"]


def test_every_witness_of_the_draft_length_is_heard() -> None:
    for evidence in (
        seen("dflash2", 5, payload=None),
        seen("dflash2", 7, payload={"num_spec_tokens": 5}),
        seen(replace(facts("dflash2"), num_speculative_tokens=5), 7),
    ):
        assert len(failed(DFLASH2, evidence)) == 1


def test_a_server_that_answers_without_drafting_fails() -> None:
    assert "without counting a draft" in failed(DFLASH2, seen("dflash2", 7, drafts=0))["drafts"]
    assert "does not draft" in failed(DFLASH2, seen("dflash2", None))["drafts"]


def test_another_vllm_than_the_recipe_is_for_fails() -> None:
    assert "vllm version" in failed(DFLASH2, seen("dflash2", 7, version="0.33.0"))
    local = seen("dflash2", 7, version="0.32.0+cpu")
    assert not failed(DFLASH2, local)


def test_the_v1_runner_of_the_last_release_that_drafts_silently_otherwise_fails() -> None:
    log = replace(facts("dflash2"), version="0.28.0", v2_runner=False)
    expected = replace(DFLASH2, vllm=">=0.28")
    assert set(failed(expected, seen(log, 7, version="0.28.0"))) == {"model runner"}


def test_without_a_log_method_architecture_and_layers_are_not_called_checked() -> None:
    claims = check(DFLASH2, seen(None, 7))
    unchecked = {claim.claim for claim in claims if claim.status == "not_checked"}
    assert unchecked == {"method", "drafter architecture", "num_speculative_tokens (log)", "auxiliary layers"}


def test_a_server_of_unknown_kind_is_only_asked_for_its_model() -> None:
    assert [claim.claim for claim in check(None, seen(None, 7))] == ["model"]
    assert check(None, seen(None, 7, models=("other",)))[0].status == "failed"


def test_log_lines_that_a_recipe_expects_must_be_there() -> None:
    expected = replace(DFLASH2, log_lines=("Using MarlinLinearKernel",))
    assert len(failed(expected, seen("dflash2", 7))) == 1
    assert not failed(expected, seen("dflash2", 7, log_text="… Using MarlinLinearKernel for x"))
    assert check(expected, seen(None, 7))[-1].status == "not_checked"


def recipe(drafter: Path) -> Any:
    return parse_recipe(
        {
            "name": "r",
            "title": "t",
            "target": {"path": str(drafter)},
            "drafter": {"path": str(drafter)},
            "engine": {"vllm": "==0.32.0", "runtime": "local", "environment": "cpu"},
            "hardware": {"device": "cpu", "class": "x86-64"},
            "arms": {"none": {}, "dflash2": {"method": "dflash", "num_speculative_tokens": 7}},
        }
    )


def test_the_expected_layers_are_the_drafters_taps_plus_one(tmp_path: Path) -> None:
    config = {"architectures": ["DFlash2DraftModel"], "dflash_config": {"target_layer_ids": [0, 2, 3]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    expected = Expectation.of(recipe(tmp_path), "dflash2", root=tmp_path)
    assert expected == replace(DFLASH2, aux_layer_ids=(1, 3, 4))
    assert Expectation.of(recipe(tmp_path), "none", root=tmp_path) == NONE


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"architectures": []}', '{"architectures": ["A"], "dflash_config": 3}']
)
def test_a_drafter_config_that_is_none_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SpecdeckError, match="not a DFlash drafter's config") as caught:
        Expectation.of(recipe(tmp_path), "dflash2", root=tmp_path)
    assert caught.value.where == "config.json"
