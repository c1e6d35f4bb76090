"""What the command line says instead of a plan's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from specdeck.errors import SpecdeckError
from specdeck.recipe import Plan
from specdeck.recipe.checks import check_plan
from specdeck.recipe.load import parse_plan, plain
from specdeck.recipe.plan import Goodput
from specdeck.recipe.problems import from_validation
from specdeck.recipe.yamlfile import dotted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_WORKERS = 256


def goodput_limits(words: Sequence[str]) -> dict[str, float] | None:
    """Read `ttft:200`, `tpot:50`, `e2el:3000` (milliseconds) as `vllm bench serve --goodput` spells them.

    Raises:
        SpecdeckError: another form, an unknown key, or one that is given twice.
    """
    limits: dict[str, float] = {}
    for word in words:
        key, _, value = word.partition(":")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if key not in Goodput.model_fields or key in limits or not 0 < number < float("inf"):
            raise SpecdeckError(
                f"{word!r} is no limit of a good request",
                where="--goodput",
                fix="--goodput ttft:200 --goodput tpot:50 (keys ttft, tpot, e2el, each once; milliseconds above 0)",
            )
        limits[key] = number
    return limits or None


def workers_wanted(word: str | None) -> int | str | None:
    """Read `auto` or a number of processes; None stays None.

    Raises:
        SpecdeckError: neither.
    """
    if word is None or word == "auto":
        return word
    if not word.isascii() or not word.isdecimal() or not 1 <= int(word) <= MAX_WORKERS:
        raise SpecdeckError(
            f"{word!r} is no number of processes", where="--workers", fix=f"--workers auto, or 1 to {MAX_WORKERS}"
        )
    return int(word)


def changed_plan(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """The plan with what the command line says instead; None leaves a key as it is.

    Raises:
        SpecdeckError: the changed plan contradicts itself, or a value is out of bounds.
    """
    wanted = {key: value for key, value in changes.items() if value is not None}
    if not wanted:
        return plan
    try:
        made = parse_plan({**plain(plan), **wanted})
    except ValidationError as error:
        problems = from_validation(error, Plan)
    else:
        problems = check_plan(made)
        if not problems:
            return made
    first = problems[0]
    raise SpecdeckError(first.what, where=f"the command line, plan key {dotted(first.path)}", fix=first.fix)
