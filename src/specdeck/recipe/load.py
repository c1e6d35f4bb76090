"""Loads recipes and plans by name or path: read, follow `extends`, validate, cross-check. All problems in one error."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe.checks import check_plan, check_recipe
from specdeck.recipe.models import Recipe
from specdeck.recipe.plan import Plan
from specdeck.recipe.problems import Problem, from_validation, raise_problems
from specdeck.recipe.resolve import display, nearest, resolve_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdeck.recipe.yamlfile import Document

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Loaded(Generic[Model]):
    """A model together with where each of its values stands."""

    model: Model
    document: Document
    shown: str


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Load a recipe of `recipes/`, or a recipe file anywhere.

    Raises:
        SpecdeckError: unknown name (the nearest ones are offered), or every problem of the file with its line.
    """
    return open_recipe(name_or_path).model


def load_plan(name_or_path: str | Path) -> Plan:
    """Load a plan of `bench/plans/`, or a plan file anywhere.

    Raises:
        SpecdeckError: as for load_recipe.
    """
    return open_plan(name_or_path).model


def open_recipe(name_or_path: str | Path) -> Loaded[Recipe]:
    """Load a recipe and keep the place of every value."""
    return _open(Recipe, "recipe", recipes_folder(), name_or_path, check_recipe)


def open_plan(name_or_path: str | Path) -> Loaded[Plan]:
    """Load a plan and keep the place of every value."""
    return _open(Plan, "plan", plans_folder(), name_or_path, check_plan)


def list_recipes() -> list[str]:
    """Return the names of all recipes of the checkout, sorted; bases are not recipes."""
    return _names(recipes_folder())


def list_plans() -> list[str]:
    """Return the names of all plans of the checkout, sorted."""
    return _names(plans_folder())


def recipes_folder() -> Path:
    """Return `recipes/` of the checkout."""
    return repo_root() / "recipes"


def plans_folder() -> Path:
    """Return `bench/plans/` of the checkout."""
    return repo_root() / "bench" / "plans"


def plain(model: BaseModel) -> dict[str, Any]:
    """Return the resolved form as JSON values, defaults included; parse_recipe and parse_plan read it back."""
    return model.model_dump(mode="json")


def parse_recipe(data: dict[str, Any]) -> Recipe:
    """Read a resolved form back, as results keep it.

    Raises:
        pydantic.ValidationError: it was not written by this version.
    """
    return Recipe.model_validate_json(json.dumps(data))


def parse_plan(data: dict[str, Any]) -> Plan:
    """Read a resolved form back, as results keep it.

    Raises:
        pydantic.ValidationError: it was not written by this version.
    """
    return Plan.model_validate_json(json.dumps(data))


def canonical_sha256(model: BaseModel) -> str:
    """Hash the resolved form (hex). `verified_on` is left out: it names runs, which name this hash."""
    data = {key: value for key, value in plain(model).items() if key != "verified_on"}
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _open(
    kind: type[Model],
    word: str,
    folder: Path,
    name_or_path: str | Path,
    check: Callable[[Model], list[Problem]],
) -> Loaded[Model]:
    root = repo_root()
    path = _find(word, folder, name_or_path)
    shown = display(path, root)
    document = resolve_file(path, folder, root)
    try:
        model = kind.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise_problems(from_validation(error, kind), document, shown)
        raise  # not reached: pydantic never raises without an error
    problems = check(model)
    name = document.data["name"]
    if name != path.stem:
        problems.insert(
            0,
            Problem(
                ("name",),
                f"is {name!r}, but the file is called {path.name}",
                f"write `name: {path.stem}` or rename the file",
            ),
        )
    raise_problems(problems, document, shown)
    return Loaded(model, document, shown)


def _find(word: str, folder: Path, name_or_path: str | Path) -> Path:
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yml", ".yaml")) or "/" in text:
        path = Path(text)
        if path.is_file():
            return path
    else:
        path = folder / f"{text}.yml"
        if text in _names(folder):
            return path
    known = _names(folder)
    close = nearest(path.stem if path.suffix in (".yml", ".yaml") else text, known)
    raise SpecdeckError(
        f"there is no {word} called {text!r}",
        where=display(path, repo_root()),
        fix=f"did you mean {' or '.join(close)}?" if close else f"use one of: {', '.join(known) or 'none yet'}",
    )


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yml"))
