"""Where the checkout's data lies: recipes, plans, prompts, models and results.

The package is installed from a checkout (editable); SPECDECK_ROOT names another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from specdeck.errors import SpecdeckError


def repo_root() -> Path:
    """Return the checkout that holds `recipes/` and `bench/`.

    Raises:
        SpecdeckError: neither SPECDECK_ROOT nor the installed package points at a checkout.
    """
    named = os.environ.get("SPECDECK_ROOT")
    root = Path(named) if named else Path(__file__).resolve().parents[2]
    if not (root / "recipes").is_dir():
        raise SpecdeckError(
            "no specdeck checkout found: there is no recipes/ folder",
            where=str(root),
            fix="run from a clone of specdeck, or set SPECDECK_ROOT to one",
        )
    return root
