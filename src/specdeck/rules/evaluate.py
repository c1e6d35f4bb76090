"""Runs the rules over the arms of a recipe: what was found, what could not be checked, what is beyond the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdeck.recipe.problems import place
from specdeck.rules.context import Context, context_of
from specdeck.rules.model import Breach, NotKnown, Rule, Severity
from specdeck.rules.registry import all_rules
from specdeck.rules.versions import newer_than

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.version import Version

    from specdeck.checkpoint import CheckpointFacts
    from specdeck.recipe.load import Loaded
    from specdeck.recipe.models import Recipe
    from specdeck.rules.facts import HostFacts


@dataclass(frozen=True)
class Found:
    """One finding: the rule, what is wrong, and where."""

    rule: Rule
    breach: Breach
    where: str = ""
    arms: tuple[str, ...] = ()

    @property
    def fix(self) -> str:
        """The most specific fix there is."""
        return self.breach.fix or self.rule.fix


@dataclass(frozen=True)
class Report:
    """What the rules say about one arm, or about several.

    Attributes:
        found: findings, errors first.
        unchecked: rules that could not be answered, with the fact each lacks.
        newer: rules that hold for an admitted vLLM version they were not checked against.
    """

    found: tuple[Found, ...] = ()
    unchecked: tuple[tuple[Rule, str], ...] = ()
    newer: tuple[Rule, ...] = ()
    versions: tuple[Version, ...] = field(default=())

    @property
    def errors(self) -> tuple[Found, ...]:
        """The findings that forbid a start."""
        return tuple(found for found in self.found if found.rule.severity is Severity.ERROR)


def check_arm(context: Context, rules: Iterable[Rule] | None = None) -> Report:
    """Run all rules on one arm."""
    found: list[Found] = []
    unchecked: list[tuple[Rule, str]] = []
    newer: list[Rule] = []
    for rule in all_rules() if rules is None else rules:
        holds = [version for version in context.versions if version in rule.specifier]
        # A recipe that admits no version at all is still told what does not depend on one.
        if context.versions and not holds:
            continue
        if any(newer_than(version, rule.checked) for version in holds):
            newer.append(rule)
        try:
            breaches = list(rule.check(context))
        except NotKnown as missing:
            unchecked.append((rule, missing.fact))
            continue
        if breaches and rule.stock and context.recipe.engine.fork:
            unchecked.append((rule, "engine.fork: the rule describes vLLM's own releases"))
            continue
        found += [Found(rule, breach, arms=(context.arm_name,)) for breach in breaches]
    return Report(tuple(sorted(found, key=_rank)), tuple(unchecked), tuple(newer), context.versions)


def check_loaded(
    loaded: Loaded[Recipe],
    *,
    arms: Sequence[str] | None = None,
    facts: Mapping[str, CheckpointFacts] | None = None,
    host: HostFacts | None = None,
    engine: Version | None = None,
) -> Report:
    """Run all rules on the arms of a recipe, place findings in its files, and tell what arms share once.

    Args:
        loaded: the recipe with the places of its values.
        arms: the arms to look at; None for all.
        facts: what is known about `target` and `drafter`.
        host: what is known about the machine.
        engine: the exact vLLM version, where it is known.
    """
    facts = facts or {}
    merged: dict[tuple[str, Breach], Found] = {}
    unchecked: dict[tuple[str, str], tuple[Rule, str]] = {}
    newer: dict[str, Rule] = {}
    versions: tuple[Version, ...] = ()
    for name in arms or loaded.model.arms:
        context = context_of(
            loaded.model, name, target=facts.get("target"), drafter=facts.get("drafter"), host=host, engine=engine
        )
        report = check_arm(context)
        versions = report.versions
        for found in report.found:
            key = (found.rule.id, found.breach)
            before = merged[key].arms if key in merged else ()
            where = place(found.breach.key, loaded.document, loaded.shown)
            merged[key] = Found(found.rule, found.breach, where, (*before, name))
        unchecked |= {(rule.id, fact): (rule, fact) for rule, fact in report.unchecked}
        newer |= {rule.id: rule for rule in report.newer}
    return Report(tuple(sorted(merged.values(), key=_rank)), tuple(unchecked.values()), tuple(newer.values()), versions)


def _rank(found: Found) -> int:
    return list(Severity).index(found.rule.severity)
