"""Turns what is wrong with a recipe or plan into sentences with file, line, key and the nearest valid name."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import nearest
from specdeck.recipe.yamlfile import dotted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.recipe.yamlfile import Document, KeyPath

MAX_SHOWN = 20
_KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text (in quotes if it looks like a number)",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "none_required": "empty",
}
_LIMITS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "too_short": ("min_length", "at least this long:"),
    "too_long": ("max_length", "at most this long:"),
    "string_too_short": ("min_length", "text of at least this many characters:"),
    "string_too_long": ("max_length", "text of at most this many characters:"),
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the key it concerns, a sentence, and what to do about it."""

    path: KeyPath
    what: str
    fix: str


def from_validation(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Translate pydantic's errors. Every one becomes one sentence without the library's vocabulary."""
    return [_problem(item, model) for item in error.errors(include_url=False)]


def raise_problems(problems: Sequence[Problem], document: Document, shown: str) -> None:
    """Raise one SpecdeckError that lists all problems with their lines; do nothing when there are none."""
    if not problems:
        return
    places = [place(problem.path, document, shown) for problem in problems]
    if len(problems) == 1:
        only = problems[0]
        raise SpecdeckError(only.what, where=f"{places[0]}, key {dotted(only.path)}", fix=only.fix)
    lines = [
        f"  {where}: {dotted(problem.path)}: {problem.what} → {problem.fix}"
        for where, problem in zip(places, problems, strict=True)
    ]
    more = [f"  … and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    raise SpecdeckError(
        "\n".join([f"{shown} has {len(problems)} problems:", *lines[:MAX_SHOWN], *more]),
        where=shown,
        fix="correct the lines above; each says how",
    )


def place(path: KeyPath, document: Document, shown: str) -> str:
    """Return `file:line` of a key, or of the nearest key around it that is written down."""
    for end in range(len(path), 0, -1):
        mark = document.marks.get(path[:end])
        if mark:
            return str(mark)
    return shown


def keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys that are valid at a path of the model; empty where any key is."""
    kind: Any = model
    for part in path:
        kind = _step(kind, part)
    found = _model(kind)
    return [field.alias or name for name, field in found.model_fields.items()] if found else []


def _problem(item: Any, model: type[BaseModel]) -> Problem:
    path: KeyPath = tuple(part for part in item["loc"] if part != "[key]")
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    key = str(path[-1]) if path else ""
    is_ = f"is {_show(value)}"
    if kind == "extra_forbidden":
        valid = keys_at(model, path[:-1])
        close = nearest(key, valid)
        fix = f"write {' or '.join(close)}" if close else f"use one of: {', '.join(valid)}"
        if "extra" in valid:
            fix += "; an option of vLLM that is not in the list goes under extra"
        return Problem(path, f"unknown key {key!r}", fix)
    if kind == "missing":
        return Problem(path, f"the key {key!r} is missing", f"add `{dotted(path)}: …`")
    if kind in _KINDS:
        return Problem(path, f"must be {_KINDS[kind]}, {is_}", f"write {_KINDS[kind]}")
    if kind == "literal_error":
        allowed = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
        close = nearest(str(value), allowed, 1)
        return Problem(
            path, f"must be one of {', '.join(allowed)}, {is_}", f"write {close[0] if close else allowed[0]}"
        )
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return Problem(
            path, f"must be {words} {context[name]}, {is_}", f"write a value that is {words} {context[name]}"
        )
    if kind == "string_pattern_mismatch":
        return Problem(path, f"{_show(value)} does not have the right form", f"it must match {context['pattern']}")
    return Problem(path, f"{item['msg']}; it {is_}", "see `specdeck recipe show tiny-next-cpu` for an example")


def _show(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _step(kind: Any, part: str | int) -> Any:
    model = _model(kind)
    if model:
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    for option in _options(kind):
        origin, arguments = get_origin(option), get_args(option)
        if origin is dict:
            return arguments[1]
        if origin is tuple:
            return arguments[0]
    return None


def _model(kind: Any) -> type[BaseModel] | None:
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _options(kind: Any) -> list[Any]:
    """Unwrap Annotated and `| None`."""
    origin = get_origin(kind)
    if origin is typing.Annotated:
        return _options(get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [option for member in get_args(kind) for option in _options(member)]
    return [kind]
