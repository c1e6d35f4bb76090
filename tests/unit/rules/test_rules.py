"""Every rule finds what it is for, lets the corrected recipe pass, and never passes where a fact is missing."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from support.rule_cases import CASES, DRAFTER, RECIPE, TARGET, Case

from specdeck.checkpoint import CheckpointFacts
from specdeck.recipe.models import Recipe
from specdeck.rules.context import Context, context_of
from specdeck.rules.evaluate import Report, check_arm
from specdeck.rules.facts import HostFacts
from specdeck.rules.model import Area, Rule, Severity
from specdeck.rules.registry import all_rules, collect, rule_of


def changed(base: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(base)
    for key, value in (item for change in changes for item in change.items()):
        *path, last = key.split(".")
        place = result
        for part in path:
            place = place.setdefault(part, {})
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def recipe_of(*changes: dict[str, Any]) -> Recipe:
    return Recipe.model_validate_json(json.dumps(changed(RECIPE, *changes)))


def context(case: Case, *, right: bool) -> Context:
    both = (case.wrong, case.right) if right else (case.wrong,)
    recipe = recipe_of(*both)
    target = changed(TARGET, case.target, case.target_right if right else {})
    drafter = changed(DRAFTER, case.drafter, case.drafter_right if right else {})
    files = (case.files_right if right else None) or case.files
    return context_of(
        recipe,
        (case.right_arm if right else None) or case.arm,
        target=CheckpointFacts(recipe.target.where, target, files=files),
        drafter=CheckpointFacts(recipe.drafter.where, drafter) if recipe.drafter else None,
        host=(case.host_right if right else None) or case.host,
    )


def ids(report: Report) -> set[str]:
    return {found.rule.id for found in report.found}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_the_recipe_that_is_wrong_is_found_and_the_one_that_is_right_passes(rule: Rule) -> None:
    case = CASES[rule.id]
    wrong = check_arm(context(case, right=False), [rule])
    assert ids(wrong) == {rule.id}
    assert all(found.fix and found.breach.what for found in wrong.found)
    corrected = context(case, right=True)
    right = check_arm(corrected, [rule])
    assert not right.found
    assert not right.unchecked, "passing must not be for want of a fact"
    if rule.id != "engine-no-version":
        assert any(version in rule.specifier for version in corrected.versions), "nor for another vLLM version"


@pytest.mark.parametrize("rule", [r for r in all_rules() if r.needs], ids=lambda rule: rule.id)
def test_a_rule_without_its_facts_says_not_checked_instead_of_passing(rule: Rule) -> None:
    case = CASES[rule.id]
    bare: dict[str, Any] = {"target.architecture": None, "drafter.architecture": None}
    if "host.compute_capability" in rule.needs and not rule.id.startswith(("host-", "all-reduce-driver")):
        bare["hardware.class"] = "unheard-of"
    if "serve.max_num_seqs" in rule.needs:
        bare["serve.max_num_seqs"] = None
    recipe = recipe_of(case.wrong, {key: value for key, value in bare.items() if key != "drafter.architecture"})
    report = check_arm(
        replace(
            context_of(recipe, case.arm),
            target=CheckpointFacts("t"),
            drafter=CheckpointFacts("d"),
            host=HostFacts(),
        ),
        [rule],
    )
    assert not report.found
    assert [fact in rule.needs for _, fact in report.unchecked] == [True]


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {rule.id for rule in all_rules()} == set(CASES)


def test_every_rule_names_evidence_a_reason_a_fix_and_a_version_range() -> None:
    for rule in all_rules():
        assert rule.evidence, rule.id
        assert all(text.strip() for text in (*rule.evidence, rule.reason, rule.fix)), rule.id
        assert "\n" not in rule.reason, rule.id
        assert SpecifierSet(rule.versions), rule.id


def test_two_rules_may_not_share_an_id() -> None:
    area = Area("a", "A")
    for _ in range(2):
        area.rule("some-rule", Severity.NOTE, reason="r", fix="f", evidence=("e",))(lambda _: [])
    with pytest.raises(ValueError, match="some-rule"):
        collect([area])


def test_an_unknown_id_is_answered_with_the_nearest() -> None:
    with pytest.raises(Exception, match="qsa-ring") as caught:
        rule_of("qsa-rings")
    assert "qsa-ring-capacity" in str(caught.value)


def test_weights_of_an_unpublished_size_are_bounded_by_their_parameters() -> None:
    case = Case({"hardware.vram_gib": 80})
    base = context(case, right=False)
    for parameters, found in ((200_000_000_000, False), (400_000_000_000, True)):
        known = replace(base, target=replace(base.target, parameters=parameters))
        assert ("weights-over-memory" in ids(check_arm(known))) is found


def test_rules_hold_only_for_their_versions() -> None:
    wrong = {"serve.max_model_len": 262145, "engine.vllm": ">=0.33,<0.34", "engine.image": None}
    case = Case(wrong)
    assert "drafter-positions" not in ids(check_arm(context(case, right=False)))
    assert "drafter-positions" in ids(check_arm(context(Case(wrong | {"engine.vllm": ">=0.32,<0.34"}), right=False)))


def test_a_newer_vllm_than_checked_is_answered_with_the_rules_not_checked_there() -> None:
    report = check_arm(context(Case({"engine.vllm": ">=0.32", "engine.image": None}), right=False))
    newer = {rule.id for rule in report.newer}
    assert "v1-runner-refused" in newer
    assert "drafter-positions" not in newer, "it ends before the versions that were not checked"
    assert not check_arm(context(Case(), right=False)).newer
    exact = check_arm(context(Case({"engine.vllm": "==0.34.1", "engine.image": None}), right=False))
    assert "v1-runner-refused" in {rule.id for rule in exact.newer}


def test_a_fork_leaves_rules_about_releases_unchecked_and_keeps_the_others() -> None:
    fork = {"engine.fork": {"repo": "a/b", "methods": ["none", "mtp", "dflash"], "source": "s"}}
    wrong = {"serve.env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "drafter.license": "cc-by-nc-nd-4.0"}
    report = check_arm(context(Case(wrong | fork), right=False))
    assert "v1-runner-refused" in {rule.id for rule, _ in report.unchecked}
    assert {"engine-fork", "licence-restricted"} <= ids(report)


def test_the_good_recipe_has_no_errors_in_any_arm() -> None:
    for arm in ("none", "mtp", "dflash2"):
        assert not check_arm(context(Case(arm=arm), right=False)).errors, arm
