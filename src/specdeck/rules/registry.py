"""Every rule, by area and by id."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import nearest
from specdeck.rules.areas import (
    attention,
    benching,
    caching,
    checkpoints,
    drafter,
    engine,
    environment,
    flash_next,
    glm,
    licence,
    memory,
    moe,
    parallel,
    positions,
    runner,
    serving,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.rules.model import Area, Rule

AREAS: tuple[Area, ...] = tuple(
    module.AREA
    for module in (
        engine, positions, drafter, runner, attention, caching, flash_next, glm, moe, parallel, memory,
        environment, serving, benching, checkpoints, licence,
    )
)  # fmt: skip
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of their areas.

    Raises:
        ValueError: two rules share an id, or an id is not kebab-case.
    """
    return collect(AREAS)


def collect(areas: Iterable[Area]) -> tuple[Rule, ...]:
    """Return the rules of some areas.

    Raises:
        ValueError: two rules share an id, or an id is not kebab-case.
    """
    rules = [rule for area in areas for rule in area.rules]
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen or not ID.fullmatch(rule.id):
            raise ValueError(f"rule {rule.id!r} is there twice, or its id is not kebab-case")
        seen.add(rule.id)
    return tuple(rules)


def rule_of(name: str) -> Rule:
    """Return the rule with an id.

    Raises:
        SpecdeckError: there is none; the nearest ids are offered.
    """
    for rule in all_rules():
        if rule.id == name:
            return rule
    close = nearest(name, [rule.id for rule in all_rules()])
    raise SpecdeckError(
        f"there is no rule {name!r}",
        where="specdeck rules show",
        fix=f"did you mean {' or '.join(close)}?" if close else "specdeck rules lists them all",
    )
