"""JSON Schemas of recipes and plans, for editors. Generated from the models, committed, and checked to be current."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from specdeck.recipe.models import Recipe
from specdeck.recipe.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

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
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    schema["properties"]["extends"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "Files this one builds on, relative to its folder and without `.yml`; later ones win.",
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _partial(value: Any) -> Any:
    """Drop `required`: a file that extends another need not repeat it, and null takes an inherited key away."""
    if isinstance(value, dict):
        return {
            key: _partial(item) for key, item in value.items() if not (key == "required" and isinstance(item, list))
        }
    if isinstance(value, list):
        return [_partial(item) for item in value]
    return value
