"""Verdicts from observations: what differs is found, what only wobbles is not, what was not seen is never good."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest

from specdeck.quality import acceptance, perplexity

if TYPE_CHECKING:
    from specdeck.recipe import Recipe

TOKENS = 3439


def scored(factor: float = 1.0, wobble: float = 0.0, mean: float = math.log(1.00877)) -> perplexity.Seen:
    """75 chunks that sum to the tokens recorded for tiny-next; `factor` multiplies their perplexity."""
    rng = random.Random(1)
    sizes = [45] * 74 + [TOKENS - 45 * 74]
    chunks = tuple(
        perplexity.Chunk(
            id=f"math-{i}:0",
            domain="math" if i % 2 else "code",
            n=n,
            nll=n * (mean * (0.8 + 0.4 * (i % 2)) + math.log(factor) + wobble * rng.uniform(-1, 1)),
        )
        for i, n in enumerate(sizes)
    )
    return perplexity.Seen(texts="tiny-next", chunks=chunks, again=chunks[:8], together=chunks[:8])


def drafted(accepted: int, prompts: int = 30) -> acceptance.Seen:
    """Prompts of ten steps with about `accepted` tokens accepted in each."""
    return acceptance.Seen(
        prompts=tuple(
            acceptance.Drafted(prompt_id=str(i), category="math", steps=10, accepted=accepted * 10 + i % 3)
            for i in range(prompts)
        )
    )


def test_the_same_perplexity_as_without_a_drafter_passes(recipe: Recipe) -> None:
    result = perplexity.Perplexity().judge("dflash2", scored(), scored(), recipe)
    assert result.verdict == "pass", result.reason
    assert result.value == pytest.approx(1.00877, abs=2e-4)
    assert result.reference == result.value
    assert result.n == 75
    assert result.details["domains"].keys() == {"math", "code"}


def test_a_perplexity_two_percent_above_the_baseline_fails_and_names_the_ratio(recipe: Recipe) -> None:
    result = perplexity.Perplexity().judge("dflash2", scored(1.02), scored(), recipe)
    assert result.verdict == "fail"
    assert "1.02 times the arm none's" in (result.reason or "")
    assert result.details["ratio_to_none"] == pytest.approx(1.02)


def test_a_difference_below_the_noise_of_scoring_again_passes(recipe: Recipe) -> None:
    noisy = scored(1.008)
    again = tuple(perplexity.Chunk(id=c.id, domain=c.domain, n=c.n, nll=c.nll + 0.01 * c.n) for c in noisy.chunks[:8])
    other = recipe.model_copy(update={"expect": recipe.expect.model_copy(update={"perplexity": {}})})
    seen = perplexity.Seen(texts="tiny-next", chunks=noisy.chunks, again=again, together=())
    assert perplexity.Perplexity().judge("dflash2", seen, scored(), other).verdict == "pass"
    assert perplexity.Perplexity().judge("dflash2", noisy, scored(), other).verdict == "fail"


def test_a_checkpoint_that_scores_unlike_its_recorded_value_fails_without_any_other_arm(recipe: Recipe) -> None:
    result = perplexity.Perplexity().judge("none", scored(1.01), None, recipe)
    assert result.verdict == "fail"
    assert "recorded for this checkpoint" in (result.reason or "")


def test_without_a_baseline_and_a_recorded_value_nothing_is_decided() -> None:
    result = perplexity.Perplexity().judge("server", scored(), None, None)
    assert result.verdict == "unmeasurable"
    assert "nothing to hold it against" in (result.reason or "")


def test_a_part_of_the_texts_is_held_to_the_recorded_value_with_what_chance_makes_of_it(recipe: Recipe) -> None:
    def judged(factor: float, n: int) -> str:
        part = perplexity.Seen(texts="tiny-next", chunks=scored(factor).chunks[:n], again=(), together=())
        result = perplexity.Perplexity().judge("none", part, None, recipe)
        assert result.details["recorded"]["whole"] is False
        return result.verdict

    assert judged(1.0, 12) == "pass"
    assert judged(1.5, 12) == "fail"
    assert judged(1.5, 3) == "unmeasurable"


def test_the_baseline_of_a_checkpoint_without_a_recorded_value_is_no_failure() -> None:
    result = perplexity.Perplexity().judge("none", scored(), None, None)
    assert (result.verdict, result.details["not_applicable"]) == ("unmeasurable", True)


def test_texts_cut_into_other_tokens_are_not_compared(recipe: Recipe) -> None:
    theirs = scored()
    other = perplexity.Seen(
        texts="tiny-next",
        chunks=tuple(perplexity.Chunk(id=c.id, domain=c.domain, n=c.n + 1, nll=c.nll) for c in theirs.chunks),
        again=(),
        together=(),
    )
    result = perplexity.Perplexity().judge("dflash2", scored(), other, recipe)
    assert result.verdict == "fail"
    assert "another tokenizer" in (result.reason or "")


def test_the_expected_acceptance_passes_and_a_longer_one_too(recipe: Recipe) -> None:
    for accepted in (4, 6):
        result = acceptance.Acceptance().judge("dflash2", drafted(accepted), None, recipe)
        assert result.verdict == "pass", result.reason
        assert result.value == pytest.approx(1 + accepted, abs=0.2)


def test_acceptance_below_what_is_expected_fails_and_names_the_drafter(recipe: Recipe) -> None:
    result = acceptance.Acceptance().judge("dflash2", drafted(1), None, recipe)
    assert result.verdict == "fail"
    assert "the drafter does not fit the target" in (result.reason or "")
    assert "target_layer_ids" in (result.reason or "")


def test_an_arm_of_which_nothing_is_expected_is_not_judged(recipe: Recipe) -> None:
    result = acceptance.Acceptance().judge("other", drafted(4), None, recipe)
    assert result.verdict == "unmeasurable"
    assert "expect.acceptance_length.other" in (result.reason or "")
