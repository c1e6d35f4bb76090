"""Prints a resolved recipe or plan: as YAML that loads again, or value by value with the place each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from specdeck.recipe.load import plain
from specdeck.recipe.yamlfile import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from specdeck.recipe.load import Loaded
    from specdeck.recipe.yamlfile import KeyPath


def as_yaml(model: BaseModel) -> str:
    """Return the resolved form as YAML; what is unset or empty is left out."""
    return yaml.safe_dump(_compact(plain(model)), sort_keys=False, allow_unicode=True, width=110)


def origins(loaded: Loaded[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield dotted key, value and `file:line` (or `default`) of every value that is set."""
    for path, value in _leaves(plain(loaded.model), ()):
        mark = next((m for end in range(len(path), 0, -1) if (m := loaded.document.marks.get(path[:end]))), None)
        written = _written(loaded.document.data, path)
        yield (
            dotted(path),
            yaml.safe_dump(value, default_flow_style=True, width=10_000).split("\n")[0],
            (str(mark) if mark and written else "default"),
        )


def _leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif value not in (None, {}, []) or (len(path) == 2 and path[0] == "arms"):
        yield path, value


def _written(data: Any, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(data, dict):
            return isinstance(data, list)
        if part not in data:
            return False
        data = data[part]
    return True


def _compact(value: Any, path: KeyPath = ()) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: _compact(item, (*path, key)) for key, item in value.items()}
    return {key: item for key, item in kept.items() if path == ("arms",) or item not in (None, {}, [])}
