"""Servers of synthetic acceptance: one start for each drafter and length, its rates changed while it runs."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from specdeck.engine.http import Http, Unreachable
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.recipe.synthetic import asked_rates, without_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.recipe.models import Recipe
    from specdeck.results.schema import CounterDelta

SET_RATES = "specdeck_set_acceptance_rates"
TIMEOUT_S = 60.0
SIGMAS, SLACK = 4.0, 0.02
"""A position's share of n drafts may miss its rate by 4 standard deviations of a binomial, and by 0.02 more: the last
draft of an answer is cut where the answer ends."""


def sibling(recipe: Recipe, arm: str, running: Iterable[str]) -> str | None:
    """The running arm that differs from `arm` in nothing but its rates; None where there is none."""
    if asked_rates(recipe.arms[arm]) is None:
        return None
    bare = without_rates(recipe.arms[arm])
    return next((name for name in running if name != arm and without_rates(recipe.arms[name]) == bare), None)


async def set_rates(base_url: str, api_key: str | None, rates: Sequence[float]) -> None:
    """Make a running server accept drafts at other rates.

    Raises:
        SpecdeckError: it does not answer, was started without the worker extension, or answers with other rates.
    """
    body = {"method": SET_RATES, "args": [json.dumps([*rates])]}
    try:
        async with Http(base_url, api_key) as http:
            answer = await http.post("/collective_rpc", body, timeout_s=TIMEOUT_S)
    except Unreachable as error:
        raise SpecdeckError(
            f"the acceptance rates could not be changed: {error}", where=base_url, fix="read the server's log"
        ) from error
    told = answer.json()
    workers = told.get("results") if isinstance(told, dict) and answer.status == 200 else None
    wanted = conditional(rates)
    if not workers or not all(_same(worker, wanted) for worker in workers):
        raise SpecdeckError(
            f"the acceptance rates could not be changed: {answer.described}",
            where=base_url + "/collective_rpc",
            fix="read the server's log; the worker extension must be loaded and VLLM_SERVER_DEV_MODE=1 set",
            exit_code=EXIT_FAILED,
        )


def conditional(rates: Sequence[float]) -> list[float]:
    """Chance that token i is accepted given that i - 1 was: rate i / rate i - 1, and 0 after a rate of 0."""
    before = [1.0, *rates]
    return [later / earlier if earlier > 0 else 0.0 for earlier, later in zip(before, rates, strict=False)]


def missed(rates: Sequence[float], delta: CounterDelta) -> str | None:
    """Say in which positions the counted acceptance is not the asked one; None where it is, or nothing was counted."""
    counted, drafts = delta.accepted_per_pos, delta.drafts
    if counted is None or not drafts:
        return None
    if len(counted) != len(rates):
        return f"{len(rates)} rates were asked for, the server counts {len(counted)} positions"
    off = [
        f"position {i}: {100 * got / drafts:.1f} % instead of {100 * rate:.1f} %"
        for i, (rate, got) in enumerate(zip(rates, counted, strict=True), start=1)
        if abs(got / drafts - rate) > SLACK + SIGMAS * math.sqrt(max(rate * (1 - rate), 0.0) / drafts)
    ]
    return f"of {drafts} drafts, {'; '.join(off)}" if off else None


def _same(worker: object, wanted: Sequence[float]) -> bool:
    told = worker.get("conditional_rates") if isinstance(worker, dict) else None
    return (
        isinstance(told, list)
        and len(told) == len(wanted)
        and all(abs(a - b) < 1e-5 for a, b in zip(told, wanted, strict=True))
    )
