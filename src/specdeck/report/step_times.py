"""Step times measured elsewhere, for `specdeck tune --profile`: results/reference/step-times.yml or a user's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field, RootModel, StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe.models import Name, Part, Positive
from specdeck.recipe.problems import from_validation, raise_problems
from specdeck.recipe.resolve import display, nearest
from specdeck.recipe.yamlfile import read_yaml

Milliseconds = Annotated[float, Field(gt=0, le=3_600_000)]
Text = Annotated[str, StringConstraints(min_length=1)]


class Profile(Part):
    """Milliseconds of a verification step by method, concurrency and draft length (0: a step without a drafter)."""

    hardware: Text
    engine: Text
    source: Text
    step_ms: dict[Text, dict[Positive, dict[Annotated[int, Field(ge=0, le=64)], Milliseconds]]]

    def step_s(self, method: str, concurrency: int) -> dict[int, float] | None:
        """Seconds by draft length; None where the profile says nothing about that method and concurrency."""
        found = self.step_ms.get(method, {}).get(concurrency)
        if not found:
            return None
        plain = self.step_ms.get("none", {}).get(concurrency, {})
        return {n: ms / 1000 for n, ms in sorted({**plain, **found}.items())}


class Profiles(RootModel[dict[Name, Profile]]):
    """A file of profiles by id."""


def load_profile(name_or_path: str) -> Profile:
    """Load a profile by id, or the only one of a file.

    Raises:
        SpecdeckError: unknown id, a file with several profiles, or every problem of the file with its line.
    """
    root = repo_root()
    path = Path(name_or_path)
    own = path.suffix in (".yml", ".yaml")
    shipped = root / "results" / "reference" / "step-times.yml"
    profiles = _read(path if own else shipped, root)
    if own and len(profiles) == 1:
        return next(iter(profiles.values()))
    if name_or_path in profiles:
        return profiles[name_or_path]
    if own:
        raise SpecdeckError(
            f"there are {len(profiles)} profiles, not one",
            where=display(path, root),
            fix="keep one profile in that file",
        )
    close = ", ".join(nearest(name_or_path, list(profiles)) or profiles)
    raise SpecdeckError(
        f"there is no profile called {name_or_path!r}",
        where=display(shipped, root),
        fix=f"use one of: {close}, or a file of that form (.yml)",
    )


def _read(path: Path, root: Path) -> dict[str, Profile]:
    shown = display(path, root)
    document = read_yaml(path, shown)
    try:
        return Profiles.model_validate_json(json.dumps(document.data)).root
    except ValidationError as error:
        raise_problems(from_validation(error, Profile), document, shown)
        raise  # not reached: pydantic never raises without an error
