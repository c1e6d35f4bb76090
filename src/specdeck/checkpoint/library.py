"""Reads models/*.yml: published facts of checkpoints, for planning before anything is downloaded.

A repository's file is models/<owner>--<name>.yml in lower case; families share models/bases/.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, JsonValue, StringConstraints, ValidationError

from specdeck.recipe.models import Part
from specdeck.recipe.problems import from_validation, raise_problems
from specdeck.recipe.resolve import display, resolve_file

if TYPE_CHECKING:
    from pathlib import Path

Bytes = Annotated[int, Field(ge=1, le=2**50)]


class KnownModel(Part):
    """Published facts of one checkpoint."""

    repo: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    """Hugging Face repository, `owner/name`."""
    revision: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")] | None = None
    """Commit the facts are of; abbreviated where only that was published. Absent: not published."""
    license: str | None = None
    config: dict[str, JsonValue]
    """What is known of config.json, in its own spelling."""
    parameters: Annotated[int, Field(ge=1, le=2**50)] | None = None
    """Parameters of all weights: bounds their size where the checkpoint's own is not published."""
    weight_bytes: Bytes | None = None
    """Bytes of all weights."""
    part_bytes: dict[str, Bytes] = Field(default_factory=dict)
    """Bytes of parts: `mtp`, `vision`, `codebooks`, `ngram`."""
    dummy: dict[str, JsonValue] | None = None
    """Keys of config.json that serving the shape with dummy weights needs and that nobody published: assumed."""
    sources: dict[str, Annotated[str, StringConstraints(min_length=3)]]
    """Where each value was published: dotted key, or the key above it, to public reference."""
    shown: str = ""


def model_file(repo: str, root: Path) -> Path:
    """Return the file that would hold a repository's facts."""
    return root / "models" / (repo.replace("/", "--").lower() + ".yml")


def known_model(repo: str, root: Path) -> KnownModel | None:
    """Read the published facts of a repository; None when there are none.

    Raises:
        SpecdeckError: the file is wrong; names file, line and key.
    """
    path = model_file(repo, root)
    return _read(path, root, {}) if path.is_file() else None


def known_family(architecture: str, name: str, root: Path) -> KnownModel | None:
    """Read what all checkpoints of an architecture share, from models/bases; None when there is no such family.

    Raises:
        SpecdeckError: a file is wrong; names file, line and key.
    """
    for path in sorted((root / "models" / "bases").glob("*.yml")):
        # The name alone tells most files apart, without reading them as YAML.
        if re.search(rf"architectures: \[{re.escape(architecture)}\]", path.read_text(encoding="utf-8")):
            found = _read(path, root, {"repo": name})
            if found.parameters is not None:
                return found
    return None


def _read(path: Path, root: Path, own: dict[str, str]) -> KnownModel:
    shown = display(path, root)
    document = resolve_file(path, root / "models", root)
    try:
        model = KnownModel.model_validate_json(json.dumps(document.data | own | {"shown": shown}))
    except ValidationError as error:
        raise_problems(from_validation(error, KnownModel), document, shown)
        raise  # not reached: pydantic never raises without an error
    return model
