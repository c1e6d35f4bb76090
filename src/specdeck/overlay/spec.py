"""What an overlay changes: overlays/*.yml, and the change itself as a pure function on a config."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Annotated, Any

from packaging.version import Version
from pydantic import StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.recipe.models import Name, Part
from specdeck.recipe.problems import from_validation, raise_problems
from specdeck.recipe.resolve import display, resolve_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Key = Annotated[str, StringConstraints(pattern=r"^[a-z_]+(\.[a-z_]+)?$")]
Value = int | float | str


class Overlay(Part):
    """One overlay. Keys are dotted, and are those of the language model's config (`text_config` where there is one)."""

    name: Name
    reason: Annotated[str, StringConstraints(min_length=1)]
    set: dict[Key, Value]
    """Values to write."""
    expect: dict[Key, Value]
    """Values the source must have: an overlay over another config is refused."""
    needless_from: str | None = None
    """First vLLM that does not need it."""
    needless_rope_types: tuple[str, ...] = ()
    """Rope types for which that holds."""
    source: Annotated[str, StringConstraints(min_length=1)]


def load_overlay(name: str, root: Path) -> Overlay:
    """Read overlays/NAME.yml.

    Raises:
        SpecdeckError: there is none, or it is wrong; names file, line and key.
    """
    folder = root / "overlays"
    known = sorted(path.stem for path in folder.glob("*.yml"))
    if name not in known:
        raise SpecdeckError(
            f"there is no overlay {name[:80]!r}", where=display(folder, root), fix=f"use one of: {', '.join(known)}"
        )
    path = folder / f"{name}.yml"
    shown = display(path, root)
    document = resolve_file(path, folder, root)
    try:
        return Overlay.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise_problems(from_validation(error, Overlay), document, shown)
        raise  # not reached: pydantic never raises without an error


def apply(overlay: Overlay, config: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """Return the changed config and one line for each value that changed. The given config is not touched.

    Raises:
        SpecdeckError: the config already differs from what the overlay is for, or has no place for a value.
    """
    changed = copy.deepcopy(dict(config))
    scope = changed.get("text_config", changed)
    if not isinstance(scope, dict):
        raise SpecdeckError("text_config is not an object", where=f"{where}: text_config", fix="download it again")
    for key, value in overlay.expect.items():
        found = _get(scope, key)
        if isinstance(found, bool) or found != value:
            raise SpecdeckError(
                f"{key} is {found!r:.60}, and overlay {overlay.name} is for {value!r}: the config already differs",
                where=f"{where}: {key}",
                fix="use the published checkpoint, or remove the overlay from the recipe",
            )
    lines = []
    for key, value in overlay.set.items():
        before = _get(scope, key)
        if before != value:
            _set(scope, key, value, where)
            lines.append(f"{key}: {'absent' if before is None else repr(before)[:60]} → {value!r}")
    return changed, lines


def needless(overlay: Overlay, config: Mapping[str, Any], vllm: str) -> bool:
    """Return whether that vLLM does without the overlay for this config."""
    if overlay.needless_from is None or Version(vllm) < Version(overlay.needless_from):
        return False
    scope = config.get("text_config", config)
    rope = scope.get("rope_parameters") or scope.get("rope_scaling") if isinstance(scope, dict) else None
    kind = (rope.get("rope_type") or rope.get("type") or "default") if isinstance(rope, dict) else "default"
    return kind in overlay.needless_rope_types


def _get(scope: dict[str, Any], key: str) -> Any:
    found: Any = scope
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _set(scope: dict[str, Any], key: str, value: Value, where: str) -> None:
    *parents, last = key.split(".")
    for part in parents:
        inner = scope.setdefault(part, {})
        if not isinstance(inner, dict):
            raise SpecdeckError(
                f"{part} is not an object", where=f"{where}: {part}", fix="download the checkpoint again"
            )
        scope = inner
    scope[last] = value


__all__ = ["Overlay", "apply", "load_overlay", "needless"]
