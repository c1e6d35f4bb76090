"""A checkout in a temporary folder for every test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.checkout import Checkout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    root = tmp_path / "a check out"
    monkeypatch.setenv("SPECDECK_ROOT", str(root))
    return Checkout(root)
