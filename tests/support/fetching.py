"""A fetch in a process of its own, for a test that ends it."""

from __future__ import annotations

from pathlib import Path

from support.hub import COMMIT, REPO

from specdeck.checkpoint.fetch import fetch
from specdeck.recipe.models import Checkpoint


def main(url: str, cache: str) -> None:
    """Fetch the hub's only repository."""
    fetch(Checkpoint(repo=REPO, revision=COMMIT), cache=Path(cache), verify=False, say=print, endpoint=url)
