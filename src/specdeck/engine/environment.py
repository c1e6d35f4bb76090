"""Which Python interpreter runs the engine: a managed environment, one the user names, or none yet."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from specdeck.recipe import Recipe


def engine_python(recipe: Recipe, root: Path, *, python: Path | None, progress: Callable[[str], None]) -> Path:
    """Return an interpreter that can import vLLM for this recipe, installing the managed environment if it is the one.

    Args:
        recipe: the recipe to serve.
        root: the checkout.
        python: the interpreter a user named; wins over the managed environment.
        progress: told what is being installed.

    Raises:
        SpecdeckError: no interpreter is known, or the named one has no vLLM.
    """
    named = named_python(root, python)
    if named is not None:
        return _checked(named)
    if recipe.engine.environment == "cpu":
        from specdeck.engine.install import ensure_engine  # noqa: PLC0415 - only this branch installs

        return ensure_engine(root / ".venv-engine", progress=progress).python
    raise SpecdeckError(
        f"recipe {recipe.name} runs on a vLLM of your own, and no interpreter that has it was named",
        where="engine.environment",
        fix=f"specdeck bench {recipe.name} --python /path/to/venv/bin/python (or set SPECDECK_ENGINE_PYTHON)",
    )


def named_python(root: Path, python: Path | None) -> Path | None:
    """Return the interpreter that a user named: `python`, else SPECDECK_ENGINE_PYTHON, relative to the checkout."""
    named = os.environ.get("SPECDECK_ENGINE_PYTHON")
    return python or (root / named if named else None)


def _checked(python: Path) -> Path:
    # Not resolved: a virtual environment's interpreter is a link, and following it would leave the environment.
    if not os.access(python, os.X_OK):
        raise SpecdeckError(
            "no Python interpreter there", where=str(python), fix="name the interpreter of an environment that has vLLM"
        )
    probe = subprocess.run(
        [str(python), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    if probe.returncode != 0:
        raise SpecdeckError(
            "that Python has no vLLM",
            where=str(python),
            fix=f"{python} -m pip install vllm, or name another interpreter with --python",
        )
    return python.absolute()
