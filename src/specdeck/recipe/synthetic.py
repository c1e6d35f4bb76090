"""Arms whose drafts are accepted at asked rates (vLLM's synthetic rejection sampling), for step times alone.

Rates are unconditional: the share of drafts whose token i is accepted, from position 1, never rising.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.recipe.models import Arm, Recipe

METHOD_KEY, RATES_KEY, LENGTH_KEY = (
    "rejection_sample_method",
    "synthetic_acceptance_rates",
    "synthetic_acceptance_length",
)
EXTENSION = "specdeck_synthetic.SyntheticRates"
"""Worker extension in engines/synthetic that changes the rates of a server that runs."""
OPTION = "--synthetic-acceptance"
LENGTHS_OPTION = "--num-speculative-tokens"
LONGEST = 64
MAX_ARMS = 64


@dataclass(frozen=True)
class Acceptance:
    """What was asked for: `rates` by position, or an acceptance `length` (bonus token included) in one of two shapes.

    `geometric`: every position has the same conditional rate. Otherwise the length is spread with the smallest
    variance, as vLLM does: as many certain positions as fit, one in between, then none.
    """

    text: str
    rates: tuple[float, ...] | None = None
    length: float | None = None
    geometric: bool = False

    def at(self, n: int) -> tuple[float, ...]:
        """Rates of a draft of n tokens.

        Raises:
            SpecdeckError: n tokens cannot be accepted that well, or more positions are drafted than have rates.
        """
        if self.rates is not None:
            if n > len(self.rates):
                raise SpecdeckError(
                    f"{len(self.rates)} rates were asked for, and an arm drafts {n} tokens",
                    where=f"{OPTION} {self.text}",
                    fix="give a rate for each position; a shorter draft takes the first ones",
                )
            return self.rates[:n]
        assert self.length is not None
        if self.length > n + 1:
            raise SpecdeckError(
                f"an arm that drafts {n} tokens reaches an acceptance length of {n + 1} at most, bonus token included",
                where=f"{OPTION} {self.text}",
                fix=f"ask for 1 to {n + 1}, or draft more ({LENGTHS_OPTION} ARM=N)",
            )
        extra = self.length - 1
        if self.geometric:
            rate = _geometric_rate(extra, n)
            return tuple(rate**i for i in range(1, n + 1))
        return tuple(min(max(extra - i, 0.0), 1.0) for i in range(n))

    @property
    def slug(self) -> str:
        """The acceptance as part of an arm's name."""
        value = 1 + sum(self.rates) if self.rates is not None else self.length
        kind = "r" if self.rates is not None else "g" if self.geometric else ""
        return f"at-{kind}{value:.2f}".replace(".", "_")


def parse_acceptance(text: str) -> Acceptance:
    """Read `4.08` (a length), `geometric:4.08`, or `0.8,0.6,0.4` (rates from position 1).

    Raises:
        SpecdeckError: anything else.
    """
    words = text.strip().removeprefix("geometric:").split(",")
    geometric = text.strip().startswith("geometric:")
    try:
        values = tuple(float(word) for word in words)
    except ValueError:
        values = ()
    if len(values) == 1 and 1 <= values[0] <= LONGEST + 1:
        return Acceptance(text=text.strip(), length=values[0], geometric=geometric)
    falling = all(later <= earlier for earlier, later in itertools.pairwise(values))
    if 1 < len(values) <= LONGEST and not geometric and falling and all(0 <= value <= 1 for value in values):
        return Acceptance(text=text.strip(), rates=values)
    raise SpecdeckError(
        f"{text!r} is neither an acceptance length nor a list of rates",
        where=OPTION,
        fix=f"give a length with the bonus token ({OPTION} 4.08, or geometric:4.08), or at least two rates between 0 "
        f"and 1 that never rise ({OPTION} 0.8,0.6,0.4)",
    )


def parse_lengths(words: Sequence[str], recipe: Recipe) -> dict[str, tuple[int, ...]]:
    """Read `ARM=3,5,7`, several times.

    Raises:
        SpecdeckError: an unknown arm or one that drafts nothing, or not a list of draft lengths.
    """
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, numbers = word.partition("=")
        if name not in recipe.arms or recipe.arms[name].method is None:
            drafting = [other for other, arm in recipe.arms.items() if arm.method is not None]
            close = nearest(name, drafting) or drafting
            raise SpecdeckError(
                f"recipe {recipe.name} has no arm {name!r} that drafts",
                where=f"{LENGTHS_OPTION} {word}",
                fix=f"use {' or '.join(close) or 'a recipe with a drafter'}",
            )
        if not re.fullmatch(r"\d{1,2}(,\d{1,2})*", numbers) or not all(
            1 <= int(part) <= LONGEST for part in numbers.split(",")
        ):
            raise SpecdeckError(
                f"{numbers!r} is not a list of draft lengths",
                where=f"{LENGTHS_OPTION} {word}",
                fix=f"give numbers from 1 to {LONGEST}: {LENGTHS_OPTION} {name}=3,5,7",
            )
        found[name] = tuple(dict.fromkeys(int(part) for part in numbers.split(",")))
    return found


def with_lengths(
    recipe: Recipe, arms: Sequence[str], lengths: Mapping[str, Sequence[int]]
) -> tuple[Recipe, tuple[str, ...]]:
    """Give an arm one copy for each draft length: `dflash2` with 3 and 5 becomes `dflash2-3` and `dflash2-5`.

    Returns:
        The recipe with the new arms, and `arms` with the copies in place of the arms they are of.
    """
    made: dict[str, Arm] = dict(recipe.arms)
    names: list[str] = []
    for name in arms:
        for n in lengths.get(name, ()):
            copy = f"{name}-{n}"
            made[copy] = recipe.arms[name].model_copy(update={"num_speculative_tokens": n})
            names.append(copy)
        if name not in lengths:
            names.append(name)
    return recipe.model_copy(update={"arms": made}), tuple(names)


def with_synthetic(recipe: Recipe, arms: Sequence[str], asked: Sequence[Acceptance]) -> tuple[Recipe, tuple[str, ...]]:
    """Serve drafting arms with synthetic acceptance; with several acceptances an arm gets a copy for each.

    Returns:
        As with_lengths.

    Raises:
        SpecdeckError: an arm cannot accept what is asked for, nothing drafts, or there would be too many arms.
    """
    if not any(recipe.arms[name].method is not None for name in arms):
        raise SpecdeckError(
            "none of the arms drafts, so there is no acceptance to ask for",
            where=OPTION,
            fix="measure an arm with a drafter beside it: --arm none --arm dflash2",
        )
    made: dict[str, Arm] = dict(recipe.arms)
    names: list[str] = []
    for name in arms:
        arm = recipe.arms[name]
        if arm.method is None:
            names.append(name)
            continue
        for acceptance in asked:
            copy = name if len(asked) == 1 else _free(f"{name}-{acceptance.slug}", made)
            made[copy] = _synthetic_arm(arm, acceptance.at(arm.num_speculative_tokens or 1))
            names.append(copy)
    if len(names) > MAX_ARMS:
        raise SpecdeckError(
            f"{len(names)} arms would be measured, more than {MAX_ARMS}", where=OPTION, fix="ask for fewer at once"
        )
    return recipe.model_copy(update={"arms": made}), tuple(names)


def asked_rates(arm: Arm) -> tuple[float, ...] | None:
    """Rates at which an arm's drafts are accepted whatever they say; None where acceptance is real."""
    if arm.method is None or arm.speculative.get(METHOD_KEY) != "synthetic":
        return None
    rates, length = arm.speculative.get(RATES_KEY), arm.speculative.get(LENGTH_KEY)
    if isinstance(rates, list):
        return tuple(float(rate) for rate in rates if isinstance(rate, int | float))
    if isinstance(length, int | float):
        return Acceptance(text=f"{length:g}", length=float(length)).at(arm.num_speculative_tokens or 1)
    return ()


def is_synthetic(recipe: Recipe | None, arms: Sequence[str]) -> bool:
    """Whether any of the arms accepts drafts at asked rates."""
    return recipe is not None and any(
        asked_rates(recipe.arms[name]) is not None for name in arms if name in recipe.arms
    )


def without_rates(arm: Arm) -> Arm:
    """The arm with its rates taken away: arms that are then equal can share a server whose rates are changed."""
    kept = {key: value for key, value in arm.speculative.items() if key not in (RATES_KEY, LENGTH_KEY)}
    return arm.model_copy(update={"speculative": kept})


def _synthetic_arm(arm: Arm, rates: tuple[float, ...]) -> Arm:
    speculative: dict[str, Any] = {
        **{key: value for key, value in arm.speculative.items() if key != LENGTH_KEY},
        METHOD_KEY: "synthetic",
        RATES_KEY: [round(rate, 6) for rate in rates],
    }
    extra = {**arm.serve.extra, "worker_extension_cls": EXTENSION}
    # Changing rates goes through an endpoint of the development mode.
    env = {**arm.serve.env, "VLLM_SERVER_DEV_MODE": "1"}
    serve = arm.serve.model_copy(update={"extra": extra, "env": env})
    return arm.model_copy(update={"speculative": speculative, "serve": serve})


def _geometric_rate(extra: float, n: int) -> float:
    """The rate p with p + p² + … + pⁿ = extra, by bisection; extra lies between 0 and n."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**i for i in range(1, n + 1)) < extra:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _free(name: str, taken: Mapping[str, Any]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def with_dummy_weights(recipe: Recipe, arms: Sequence[str]) -> Recipe:
    """Serve shapes alone: weights are made up, and what reads a tokenizer's own words is left out.

    Raises:
        SpecdeckError: one of the arms is a DFlash drafter on a CPU.
    """
    fused = [name for name in arms if recipe.arms[name].method == "dflash"]
    if recipe.hardware.device == "cpu" and fused:
        raise SpecdeckError(
            "vLLM's CPU build cannot serve a DFlash drafter with made-up weights: it packs the drafter's projections "
            "away before they are joined (tried with 0.32.0)",
            where=f"--dummy-weights, arm {fused[0]}",
            fix="measure the other arms (--arm none --arm mtp), use the real drafter (leave --dummy-weights), or a GPU",
        )
    serve = recipe.serve.model_copy(
        update={
            "extra": {**recipe.serve.extra, "load_format": "dummy"},
            "reasoning_parser": None,
            "tool_call_parser": None,
            "enable_auto_tool_choice": None,
            "chat_template": None,
            "generation_config": "vllm",
        }
    )
    return recipe.model_copy(update={"serve": serve})
