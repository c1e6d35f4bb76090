"""Reads one YAML file into plain values and remembers the line of every key.

Safe by construction: only mappings, lists, text, numbers, true/false and null; bounded size, depth and node count.
Stricter than YAML: a key may not appear twice, and there is no merge key (recipes have `extends`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 256 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 32
# libyaml's parser where PyYAML has it: the same nodes and lines at a tenth of the time.
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Mark:
    """A place in a file; `file` as shown to people, `line` from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Document:
    """The values of a file, and where each of them stands."""

    data: dict[str, Any]
    marks: dict[KeyPath, Mark] = field(default_factory=dict)


def dotted(path: KeyPath) -> str:
    """Write a key path as people do: `arms.mtp.serve`, `concurrency[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(the whole file)"


def read_yaml(path: Path, shown: str) -> Document:
    """Read a mapping from a YAML file.

    Args:
        path: the file.
        shown: how messages name it.

    Raises:
        SpecdeckError: unreadable, not UTF-8, too large, not YAML, not a mapping, a repeated key, an unsafe tag.
    """
    text = _text(path, shown)
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _not_yaml(error, shown) from None
    except RecursionError:
        raise _nested(shown) from None
    if node is None:
        raise SpecdeckError(
            "the file is empty", where=shown, fix="see `specdeck recipe show tiny-next-cpu` for a whole one"
        )
    if not isinstance(node, yaml.MappingNode):
        raise SpecdeckError(
            "the file is not a mapping of keys to values", where=f"{shown}:1", fix="begin with a line such as `name: …`"
        )
    reader = _Reader(shown)
    data = reader.mapping(node, (), 0)
    return Document(data, reader.marks)


class _Reader:
    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.marks: dict[KeyPath, Mark] = {}
        self.nodes = 0
        self.scalars = yaml.constructor.SafeConstructor()

    def mapping(self, node: yaml.MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.error("a key must be a plain word", line, "write `key: value`")
            key = str(key_node.value)
            if key == "<<":
                raise self.error(
                    "merge keys (<<) are not supported", line, "use `extends:` to share what recipes have in common"
                )
            if key in result:
                raise self.error(
                    f"the key {dotted((*path, key))!r} appears twice (first at line {first[key]})",
                    line,
                    "keep one of the two",
                )
            first[key] = line
            self.marks[*path, key] = Mark(self.shown, line)
            result[key] = self.value(value_node, (*path, key), depth + 1)
        return result

    def value(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise self.error(
                "the file is nested too deeply or expands to too much", line, "remove anchors and deep nesting"
            )
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS:
            raise self.error(
                f"the tag {node.tag!r} is not allowed", line, "remove it: a recipe holds plain values only"
            )
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.marks[*path, index] = Mark(self.shown, item.start_mark.line + 1)
                items.append(self.value(item, (*path, index), depth + 1))
            return items
        assert isinstance(node, yaml.ScalarNode)
        return self.scalar(node, line)

    def scalar(self, node: yaml.ScalarNode, line: int) -> Any:
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        text = str(node.value)
        if tag in ("str", "timestamp") or (tag in ("int", "float") and ":" in text):
            return text  # dates and base-60 numbers stay what they look like
        try:
            if tag == "null":
                return None
            if tag == "bool":
                return bool(self.scalars.construct_yaml_bool(node))
            if tag == "int":
                return int(self.scalars.construct_yaml_int(node))
            if tag == "float":
                number = float(self.scalars.construct_yaml_float(node))
                if math.isfinite(number):
                    return number
        except (ValueError, KeyError, OverflowError):
            pass
        raise self.error(
            f"the value {text[:60]!r} (type {tag}) is not allowed here", line, "write plain text, in quotes if need be"
        )

    def error(self, what: str, line: int, fix: str) -> SpecdeckError:
        return SpecdeckError(what, where=f"{self.shown}:{line}", fix=fix)


def _text(path: Path, shown: str) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecdeckError(
            f"the file cannot be read: {error.strerror}", where=shown, fix=f"check it: ls -l {shown}"
        ) from None
    if len(raw) > MAX_BYTES:
        raise SpecdeckError(
            f"the file is larger than {MAX_BYTES // 1024} KiB", where=shown, fix="this is not a recipe or plan"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SpecdeckError("the file is not UTF-8 text", where=f"{shown}:{line}", fix="save it as UTF-8") from None


def _not_yaml(error: yaml.YAMLError, shown: str) -> SpecdeckError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    where = f"{shown}:{mark.line + 1}, column {mark.column + 1}" if mark else shown
    if "nesting depth" in problem:
        return _nested(where)
    return SpecdeckError(
        f"the file is not valid YAML: {problem}",
        where=where,
        fix="correct that line (indent with spaces, quote special characters)",
    )


def _nested(where: str) -> SpecdeckError:
    return SpecdeckError("the file is nested too deeply", where=where, fix=f"keep it within {MAX_DEPTH} levels")
