"""All checks by name, in the order they are made. A check's module is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.quality.check import Check

CHECKS = {
    "perplexity": "perplexity.Perplexity",
    "acceptance": "acceptance.Acceptance",
    "functions": "functions.Functions",
    "divergence": "divergence.Divergence",
    "shared_prefix": "shared_prefix.SharedPrefix",
    "needle": "needle.Needle",
}
SMOKE = ("perplexity", "acceptance", "functions", "divergence", "shared_prefix")
"""What `specdeck smoke` makes."""


def choose(names: Sequence[str]) -> list[Check[Any]]:
    """The named checks in the order they are made.

    Raises:
        SpecdeckError: there is no such check.
    """
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        close = nearest(unknown[0], list(CHECKS))
        raise SpecdeckError(
            f"there is no check {unknown[0]!r}", where="--check", fix=f"use one of: {', '.join(close or CHECKS)}"
        )
    found = []
    for name, place in CHECKS.items():
        if name in names:
            module, _, kind = place.rpartition(".")
            found.append(getattr(import_module(f"specdeck.quality.{module}"), kind)())
    return found
