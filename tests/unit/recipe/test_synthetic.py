"""Acceptance that is asked for: what may be asked, and which arms come of it."""

from __future__ import annotations

import itertools

import pytest

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe import Recipe, load_recipe
from specdeck.recipe.synthetic import (
    EXTENSION,
    MAX_ARMS,
    asked_rates,
    is_synthetic,
    parse_acceptance,
    parse_lengths,
    with_lengths,
    with_synthetic,
    without_rates,
)
from specdeck.run.options import resolve


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("tiny-next-cpu")


def test_a_length_is_spread_with_the_smallest_variance() -> None:
    assert parse_acceptance("4.08").at(7) == pytest.approx((1, 1, 1, 0.08, 0, 0, 0))
    assert parse_acceptance("1").at(3) == (0, 0, 0)
    assert parse_acceptance("8").at(7) == (1,) * 7


def test_a_geometric_length_has_one_conditional_rate() -> None:
    rates = parse_acceptance("geometric:3").at(7)
    assert sum(rates) == pytest.approx(2)
    assert [b / a for a, b in itertools.pairwise(rates)] == pytest.approx([rates[0]] * 6)
    assert parse_acceptance("geometric:4").at(3) == pytest.approx((1, 1, 1))


def test_rates_are_taken_as_they_are_and_a_shorter_draft_takes_the_first() -> None:
    assert parse_acceptance("0.8, 0.6,0.4").at(2) == (0.8, 0.6)
    with pytest.raises(SpecdeckError, match="3 rates were asked for, and an arm drafts 7"):
        parse_acceptance("0.8,0.6,0.4").at(7)


@pytest.mark.parametrize(
    "text", ["", "x", "0.5", "0", "-1", "66", "nan", "inf", "0.4,0.6", "1.2,0.5", "0.5,nan", "geometric:0.5,0.4", "1,"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecdeckError, match="neither an acceptance length nor a list of rates") as refused:
        parse_acceptance(text)
    assert "--synthetic-acceptance 4.08" in str(refused.value)


def test_a_draft_cannot_be_accepted_beyond_its_length() -> None:
    with pytest.raises(SpecdeckError, match="drafts 3 tokens reaches an acceptance length of 4 at most"):
        parse_acceptance("4.5").at(3)


def test_an_arm_is_copied_for_each_draft_length(recipe: Recipe) -> None:
    lengths = parse_lengths(["dflash2=3,5,3"], recipe)
    made, names = with_lengths(recipe, ("none", "dflash2"), lengths)
    assert names == ("none", "dflash2-3", "dflash2-5")
    assert made.arms["dflash2-5"].num_speculative_tokens == 5
    assert made.arms["dflash2-5"].method == "dflash"
    assert "dflash2-3" not in recipe.arms


@pytest.mark.parametrize("word", ["dflash2", "dflash2=", "dflash2=0", "dflash2=65", "dflash2=3;4", "dflash2=x"])
def test_a_list_of_lengths_is_checked(recipe: Recipe, word: str) -> None:
    with pytest.raises(SpecdeckError, match="not a list of draft lengths"):
        parse_lengths([word], recipe)


@pytest.mark.parametrize("word", ["dflash=3", "none=3", "=3"])
def test_only_an_arm_that_drafts_has_lengths(recipe: Recipe, word: str) -> None:
    with pytest.raises(SpecdeckError, match=r"no arm .* that drafts"):
        parse_lengths([word], recipe)


def test_one_acceptance_keeps_the_arms_name_and_several_name_their_copies(recipe: Recipe) -> None:
    one, names = with_synthetic(recipe, ("none", "mtp"), [parse_acceptance("2.5")])
    assert names == ("none", "mtp")
    assert asked_rates(one.arms["mtp"]) == pytest.approx((1, 0.5, 0))
    assert asked_rates(one.arms["none"]) is None
    assert one.arms["mtp"].serve.extra["worker_extension_cls"] == EXTENSION
    asked = [parse_acceptance(text) for text in ("2.5", "geometric:2.5", "0.9,0.4,0.2", "0.8,0.5,0.2")]
    several, names = with_synthetic(recipe, ("mtp",), asked)
    assert names == ("mtp-at-2_50", "mtp-at-g2_50", "mtp-at-r2_50", "mtp-at-r2_50-2")
    assert without_rates(several.arms[names[0]]) == without_rates(several.arms[names[3]])


def test_without_a_drafter_or_with_too_many_arms_nothing_is_measured(recipe: Recipe) -> None:
    with pytest.raises(SpecdeckError, match="none of the arms drafts"):
        with_synthetic(recipe, ("none",), [parse_acceptance("2")])
    many = [parse_acceptance(f"{1 + i / 100:.2f}") for i in range(MAX_ARMS + 1)]
    with pytest.raises(SpecdeckError, match=f"more than {MAX_ARMS}"):
        with_synthetic(recipe, ("mtp",), many)


def test_a_recipe_that_asks_by_itself_is_synthetic_too(recipe: Recipe) -> None:
    speculative = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}
    arm = recipe.arms["mtp"].model_copy(update={"speculative": speculative})
    own = recipe.model_copy(update={"arms": {**recipe.arms, "mtp": arm}})
    assert asked_rates(own.arms["mtp"]) == pytest.approx((1, 0.5, 0))
    assert is_synthetic(own, ["none", "mtp"])
    assert not is_synthetic(own, ["none", "dflash2"])
    assert not is_synthetic(None, ["server"])


def test_a_synthetic_run_generates_its_whole_budget_and_plans_the_copies() -> None:
    options = resolve(
        repo_root(),
        recipe_name="tiny-next-cpu",
        plan_name="smoke",
        arms=("none", "dflash2"),
        draft_lengths=["dflash2=3,7"],
        synthetic=["2", "geometric:3"],
    )
    assert options.plan.ignore_eos
    assert options.plan.arms == options.arms
    assert options.arms[1] == "dflash2-3-at-2_00"
    assert len(options.arms) == 5


def test_a_running_server_keeps_its_way_of_accepting() -> None:
    with pytest.raises(SpecdeckError, match="a running server keeps its draft length"):
        resolve(
            repo_root(),
            recipe_name="tiny-next-cpu",
            plan_name="smoke",
            base_urls=["mtp=http://127.0.0.1:1"],
            synthetic=["2"],
        )
