"""What the tests of checks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from specdeck.recipe import Recipe


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe("tiny-next-cpu")
