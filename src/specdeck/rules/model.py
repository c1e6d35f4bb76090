"""What a rule is and what it answers. A rule never guesses: a fact that is not there makes it say so, not pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from specdeck.recipe.yamlfile import KeyPath
    from specdeck.rules.context import Context

Value = TypeVar("Value")
CHECKED = ">=0.28.0,<=0.33.0"


class Severity(StrEnum):
    """How bad a finding is. `error`: the arm does not start, or what it serves is wrong. It is never started."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class NotKnown(Exception):  # noqa: N818 - an answer, not an error
    """Raised inside a rule when a fact it needs is not there."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.fact = fact


def need(value: Value | None, fact: str) -> Value:
    """Return the value of a fact.

    Raises:
        NotKnown: it is None. The rule is then reported as not checked.
    """
    if value is None:
        raise NotKnown(fact)
    return value


@dataclass(frozen=True)
class Breach:
    """One violation of a rule: the key it concerns, what is wrong there, and a fix that is better than the rule's."""

    key: KeyPath
    what: str
    fix: str | None = None


Check = Callable[["Context"], Iterable[Breach]]


@dataclass(frozen=True)
class Rule:
    """One trap.

    Attributes:
        id: stable, kebab-case.
        versions: vLLM versions it holds for, as a PEP 440 specifier.
        reason: one line: what happens and why.
        fix: what a person can do.
        evidence: public references.
        needs: facts beyond the recipe, such as `target.vocab_size`; absent ones make it "not checked".
        stock: it describes vLLM's own releases, so a recipe for a fork leaves it unchecked.
        checked: vLLM versions it was compared with.
    """

    id: str
    area: str
    severity: Severity
    versions: str
    reason: str
    fix: str
    evidence: tuple[str, ...]
    needs: tuple[str, ...]
    check: Check
    stock: bool = True
    checked: str = CHECKED

    @property
    def specifier(self) -> SpecifierSet:
        """The versions as a specifier set."""
        return SpecifierSet(self.versions, prereleases=True)


class Area:
    """Collects the rules of one module."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.title = title
        self.rules: list[Rule] = []

    def rule(
        self,
        name: str,
        severity: Severity,
        *,
        reason: str,
        fix: str,
        evidence: tuple[str, ...],
        versions: str = ">=0.28",
        needs: tuple[str, ...] = (),
        stock: bool = True,
    ) -> Callable[[Check], Check]:
        """Register a function as the check of a new rule."""

        def add(check: Check) -> Check:
            self.rules.append(
                Rule(name, self.name, severity, versions, reason, fix, evidence, needs, check, stock=stock)
            )
            return check

        return add
