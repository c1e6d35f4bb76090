"""What an image was built from: `/opt/specdeck/manifest.json` inside it, and the same text as a label.

The label lets a runtime compare image and recipe without starting a container.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import Field, StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.recipe.models import Name, Part
from specdeck.recipe.problems import from_validation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdeck.recipe.models import Recipe

PATH = "/opt/specdeck/manifest.json"
"""Where it lies in an image."""
LABEL = "io.specdeck.manifest"
"""Label that holds the same text."""
MAX_BYTES = 256 * 1024
REBUILD = "specdeck image build"

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Inside = Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*(?:/\w[\w.-]*)*$", max_length=400)]
"""A relative path; no part begins with a dot."""


class Base(Part):
    """The image that was built upon."""

    ref: Text
    """Reference as it was given."""
    digest: Digest | None = None
    """What it pointed to; None where the base came from no registry."""


class Patch(Part):
    """One applied patch of engines/patches."""

    id: Name
    sha256: Sha256
    """Of the diff."""
    files: Annotated[dict[Inside, Sha256], Field(min_length=1)]
    """Path below the folder that holds the `vllm` package, to the SHA-256 of the patched file."""


class Manifest(Part):
    """What an image was built from."""

    schema_version: Literal[1] = 1
    vllm: Text
    """Version of vLLM in the image (PEP 440)."""
    device: Literal["cpu", "cuda"]
    base: Base
    patches: tuple[Patch, ...] = ()
    """In the order in which they were applied."""
    harness: Text
    """Version of specdeck that built it."""
    build_args: dict[Text, str] = Field(default_factory=dict)
    """Arguments of the build. Never secrets."""


def dump(manifest: Manifest) -> bytes:
    """Write the canonical text: keys sorted, no spaces. Equal manifests are equal bytes."""
    return json.dumps(manifest.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()


def load(source: Path | str | bytes) -> Manifest:
    """Read a manifest.

    Args:
        source: the file, or its text (a label's value, for example) as bytes.

    Raises:
        SpecdeckError: it cannot be read, or is not a manifest of this version; says which key.
    """
    where = "the image's manifest" if isinstance(source, bytes) else str(source)
    raw = source if isinstance(source, bytes) else _read(Path(source))
    if len(raw) > MAX_BYTES:
        raise SpecdeckError(f"the manifest is larger than {MAX_BYTES // 1024} KiB", where=where, fix=REBUILD)
    try:
        manifest = Manifest.model_validate_json(raw)
    except ValidationError as error:
        first = from_validation(error, Manifest)[0]
        key = ".".join(str(part) for part in first.path)
        raise SpecdeckError(
            f"this is no image manifest: {key} {first.what}".rstrip(), where=where, fix=REBUILD
        ) from None
    try:
        Version(manifest.vllm)
    except InvalidVersion:
        raise SpecdeckError(
            f"this is no image manifest: vllm {manifest.vllm[:60]!r} is not a version", where=where, fix=REBUILD
        ) from None
    ids = [patch.id for patch in manifest.patches]
    if len(set(ids)) != len(ids):
        raise SpecdeckError("this is no image manifest: a patch is listed twice", where=where, fix=REBUILD)
    return manifest


def from_labels(labels: Mapping[str, str]) -> Manifest | None:
    """Return the manifest among an image's labels; None for an image that specdeck did not build.

    Raises:
        SpecdeckError: there is one, and it cannot be read.
    """
    text = labels.get(LABEL)
    return None if text is None else load(text.encode())


def mismatches(manifest: Manifest, recipe: Recipe, diffs: Mapping[str, str] | None = None) -> list[str]:
    """Say in what an image is not the one that a recipe asks for; empty when it is.

    Args:
        manifest: the image's.
        recipe: the resolved recipe.
        diffs: patch id to the SHA-256 (hex) of this checkout's diff; None: only ids are compared.
    """
    found: list[str] = []
    try:
        if Version(manifest.vllm) not in SpecifierSet(recipe.engine.vllm, prereleases=True):
            found.append(f"the image has vLLM {manifest.vllm}, and the recipe is for {recipe.engine.vllm}")
    except InvalidSpecifier:
        found.append(f"the recipe's {recipe.engine.vllm!r} is not a version specifier")
    if manifest.device != recipe.hardware.device:
        found.append(f"the image is built for {manifest.device}, and the recipe is for {recipe.hardware.device}")
    carried = {patch.id: patch for patch in manifest.patches}
    wanted = recipe.engine.patches
    found += [f"the image lacks the patch {name}" for name in wanted if name not in carried]
    found += [
        f"the image carries the patch {name}, which the recipe does not name" for name in carried if name not in wanted
    ]
    for name in wanted:
        if diffs is None or name not in carried:
            continue
        if name not in diffs:
            found.append(f"this checkout has no patch {name} to compare the image's with")
        elif diffs[name] != carried[name].sha256:
            found.append(f"the image was built with another version of the patch {name}")
    return found


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecdeckError(
            f"the manifest cannot be read: {error.strerror}", where=str(path), fix=f"check it: ls -l '{path}'"
        ) from None
