"""JSON Schemas of recipes and plans, for editors. Generated from the models, committed, and checked to be current."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from typing import TYPE_CHECKING, Any

from specdeck.recipe import models, plan
from specdeck.recipe.models import Recipe
from specdeck.recipe.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from pydantic import BaseModel


def schemas(root: Path) -> dict[Path, str]:
    """Return each schema's file and text."""
    return {
        root / "recipes" / "recipe.schema.json": _text(Recipe, "specdeck recipe"),
        root / "bench" / "plans" / "plan.schema.json": _text(Plan, "specdeck plan"),
    }


def stale(root: Path) -> list[Path]:
    """Return the schema files that are missing or differ from the models."""
    return [path for path, text in schemas(root).items() if not path.is_file() or path.read_text("utf-8") != text]


def _text(model: type[BaseModel], title: str) -> str:
    schema = _partial(model.model_json_schema())
    docs = _field_docs(models) | _field_docs(plan)
    for name, section in [(model.__name__, schema), *schema["$defs"].items()]:
        for key, text in docs.get(name, {}).items():
            section["properties"][key]["description"] = text
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    schema["properties"]["extends"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Files this one builds on, relative to its folder and without `.yml`; later ones win.",
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _field_docs(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the docstring below each field, by class and field.

    pydantic would read them whenever a model is imported, which costs every command; only schemas need them.
    """
    docs: dict[str, dict[str, str]] = {}
    for section in ast.parse(inspect.getsource(module)).body:
        if isinstance(section, ast.ClassDef):
            fields = getattr(module, section.name).model_fields
            docs[section.name] = {
                fields[field.target.id].alias or field.target.id: inspect.cleandoc(below.value.value)
                for field, below in itertools.pairwise(section.body)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            }
    return docs


def _partial(value: Any) -> Any:
    """Drop `required`: a file that extends another need not repeat it, and null takes an inherited key away."""
    if isinstance(value, dict):
        return {
            key: _partial(item) for key, item in value.items() if not (key == "required" and isinstance(item, list))
        }
    if isinstance(value, list):
        return [_partial(item) for item in value]
    return value
