"""Shared by the proofs: finds the statements a patch is about in vLLM's file, and runs them with stand-ins.

Standard library only, and vLLM is not imported: a proof runs wherever Python does, on an unpacked wheel as in an image.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def read(path: str) -> ast.Module:
    """Parse a file below the folder named on the command line; exit with 2 when it cannot be read."""
    try:
        return ast.parse((Path(sys.argv[1]) / path).read_text(encoding="utf-8"))
    except (IndexError, OSError, SyntaxError, ValueError) as error:
        print(f"{path}: {error}")
        sys.exit(2)


def statements(tree: ast.Module, wanted: Callable[[str], bool]) -> list[ast.If]:
    """Return the `if` statements whose own condition, as text, is a wanted one."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.If) and wanted(ast.unparse(node.test))]


def function(tree: ast.AST, name: str) -> ast.FunctionDef:
    """Return a function or method by name, without decorators and types; exit with 2 when there is not just one."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(found) != 1:
        print(f"there are {len(found)} functions named {name}")
        sys.exit(2)
    node = found[0]
    node.decorator_list, node.returns = [], None
    for argument in node.args.args:
        argument.annotation = None
    return node


def method(tree: ast.Module, owner: str, name: str) -> ast.FunctionDef:
    """Return a class's own method as `function` does; imports in its body are left out, as their names are given."""
    node = function(_class(tree, owner), name)
    node.body = [statement for statement in node.body if not isinstance(statement, ast.Import | ast.ImportFrom)]
    return node


def bases(tree: ast.Module, name: str) -> list[str]:
    """Return what a class names as its bases."""
    return [ast.unparse(base) for base in _class(tree, name).bases]


def _class(tree: ast.Module, name: str) -> ast.ClassDef:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if len(found) != 1:
        print(f"there are {len(found)} classes named {name}")
        sys.exit(2)
    return found[0]


def run(body: list[ast.stmt], names: dict[str, Any]) -> dict[str, Any]:
    """Run statements with the names they use, and return what the names then are."""
    module = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    exec(compile(module, "vllm", "exec"), names)  # noqa: S102 - vLLM's own statements
    return names
