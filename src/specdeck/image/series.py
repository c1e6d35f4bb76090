"""`engines/patches/series.yml`: every patch of vLLM that an image may carry, what it is for and when it is dropped.

One patch has one upstream reference and one purpose. Its diffs are chosen by the content of the files they change,
never by a version's name alone: a release, a build from source and a fork may share a version.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated

from packaging.version import InvalidVersion, Version
from pydantic import Field, StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.image.diff import FileDiff, parse
from specdeck.image.manifest import Inside, Sha256, Text  # noqa: TC001 - pydantic reads the annotations
from specdeck.recipe.models import Name, Part
from specdeck.recipe.problems import Problem, from_validation, raise_problems
from specdeck.recipe.resolve import nearest
from specdeck.recipe.yamlfile import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from specdeck.image.manifest import Manifest
    from specdeck.recipe.yamlfile import KeyPath

SERIES = "series.yml"
Release = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]


class Content(Part):
    """What a file holds: SHA-256, hex."""

    before: Sha256 | None
    """Without the patch; null: the patch creates the file."""
    after: Sha256
    """With it."""


class Diff(Part):
    """One diff of a patch: what it is against, and the files it changes."""

    file: Inside
    """Below engines/patches."""
    sha256: Sha256
    """Of the diff."""
    releases: tuple[Release, ...] = ()
    """Releases of vLLM whose files these are."""
    source: Annotated[str, StringConstraints(pattern=r"^https://\S+/[0-9a-f]{40}$")] | None = None
    """Commit whose files these are, where no release has them."""
    files: Annotated[dict[Inside, Content], Field(min_length=1)]
    """Path below the folder that holds the `vllm` package, to its content."""


class Drop(Part):
    """When the patch is no longer needed, and how that is seen in vLLM's own files."""

    when: Text
    """In words."""
    file: Inside
    """File in which it is seen."""
    contains: Text | None = None
    """Text that this file then contains."""
    lacks: Text | None = None
    """Text that this file then lacks. Exactly one of the two."""


class Entry(Part):
    """One patch."""

    id: Name
    upstream: Annotated[str, StringConstraints(pattern=r"^https://github\.com/[\w.-]+/[\w.-]+/(pull|blob|commit)/\S+$")]
    """The one public reference: a pull request, a commit, or the file of a release that has it."""
    purpose: Text
    since: Release
    """First release it is for; builds from source are compared by the version they say they are."""
    before: Release
    """First release it is not for any more."""
    drop: Drop
    license: Text
    """Under what the diff may be used, and whose code its context lines quote."""
    proof: Inside
    """Python file below engines/patches: `python FILE FOLDER` exits with 0 where the patch works."""
    diffs: Annotated[tuple[Diff, ...], Field(min_length=1)]


class Listing(Part):
    """The file."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    patches: tuple[Entry, ...]


class Series:
    """The patches of a checkout, with the diffs read and their hashes checked."""

    def __init__(self, folder: Path, entries: tuple[Entry, ...], diffs: dict[str, tuple[FileDiff, ...]]) -> None:
        self.folder = folder
        self.entries = entries
        self.diffs = diffs
        """Name of the diff's file, to what it does."""

    def entry(self, name: str) -> Entry:
        """Return a patch by its id.

        Raises:
            SpecdeckError: there is none of that id; the nearest are named.
        """
        for entry in self.entries:
            if entry.id == name:
                return entry
        close = nearest(name, [entry.id for entry in self.entries]) or [entry.id for entry in self.entries]
        raise SpecdeckError(
            f"there is no patch {name!r}",
            where=str(self.folder / SERIES),
            fix=f"use {' or '.join(close)}" if close else "add it to the series",
        )

    def in_order(self, names: Sequence[str]) -> list[Entry]:
        """Return patches by id in the order of the series, in which they are applied."""
        wanted = {self.entry(name).id for name in names}
        return [entry for entry in self.entries if entry.id in wanted]


def load_series(folder: Path) -> Series:
    """Read `series.yml` and every diff it names.

    Args:
        folder: engines/patches.

    Raises:
        SpecdeckError: with every problem of the file and its line; or a diff is missing, is not the one that the series
            describes, or cannot be read.
    """
    path = folder / SERIES
    document = read_yaml(path, str(path))
    try:
        # By way of JSON: strict models take a list for a tuple only there.
        listing = Listing.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise_problems(from_validation(error, Listing), document, str(path))
        raise AssertionError("a failed validation has problems") from None
    problems: list[Problem] = []
    diffs: dict[str, tuple[FileDiff, ...]] = {}
    ids: set[str] = set()
    for index, entry in enumerate(listing.patches):
        key: KeyPath = ("patches", index)
        if entry.id in ids:
            problems.append(Problem((*key, "id"), f"the patch {entry.id} is listed twice", "keep one"))
        ids.add(entry.id)
        problems += _entry(entry, key, folder, diffs)
    raise_problems(problems, document, str(path))
    return Series(folder, listing.patches, diffs)


def _entry(entry: Entry, key: KeyPath, folder: Path, diffs: dict[str, tuple[FileDiff, ...]]) -> Iterator[Problem]:
    if Version(entry.since) >= Version(entry.before):
        yield Problem((*key, "before"), f"{entry.before} is not after {entry.since}", "write a later release")
    if (entry.drop.contains is None) == (entry.drop.lacks is None):
        yield Problem((*key, "drop"), "needs either `contains` or `lacks`, and not both", "keep one of them")
    if not (folder / entry.proof).is_file():
        yield Problem((*key, "proof"), f"there is no {entry.proof}", "write the check that proves the patch works")
    known: list[str] = []
    for number, diff in enumerate(entry.diffs):
        here: KeyPath = (*key, "diffs", number)
        known += diff.releases
        if bool(diff.releases) == (diff.source is not None):
            yield Problem(here, "needs either `releases` or `source`, and not both", "say whose files it is against")
        for release in diff.releases:
            if not Version(entry.since) <= Version(release) < Version(entry.before):
                yield Problem(
                    (*here, "releases"), f"{release} is not from {entry.since} to before {entry.before}", "correct it"
                )
        yield from _read(diff, here, folder, diffs)
    if len(set(known)) != len(known):
        yield Problem((*key, "diffs"), "two diffs are for the same release", "name each release once")


def _read(diff: Diff, here: KeyPath, folder: Path, diffs: dict[str, tuple[FileDiff, ...]]) -> Iterator[Problem]:
    try:
        raw = (folder / diff.file).read_bytes()
    except OSError as error:
        yield Problem((*here, "file"), f"{diff.file} cannot be read: {error.strerror}", f"git checkout -- {diff.file}")
        return
    found = hashlib.sha256(raw).hexdigest()
    if found != diff.sha256:
        yield Problem((*here, "sha256"), f"{diff.file} has the SHA-256 {found}", "restore the diff or correct the hash")
        return
    parsed = parse(raw.decode("utf-8", "replace"), str(folder / diff.file))
    diffs[diff.file] = parsed
    creates = {file.path: file.creates for file in parsed}
    if set(creates) != set(diff.files):
        yield Problem((*here, "files"), f"the diff changes {', '.join(sorted(creates))}", "list exactly those")
    for name, content in diff.files.items():
        if creates.get(name) is not None and creates[name] != (content.before is None):
            yield Problem(
                (*here, "files", name), "`before` is null where the diff creates the file, and only there", ""
            )


def current_diffs(series: Series, manifest: Manifest) -> dict[str, str]:
    """Return this checkout's diff (SHA-256) of each patch that an image carries, for `mismatches`.

    A patch has a diff for each release; the image's is current when it is one of them.
    """
    found: dict[str, str] = {}
    for patch in manifest.patches:
        for entry in series.entries:
            if entry.id == patch.id:
                hashes = [diff.sha256 for diff in entry.diffs]
                found[patch.id] = patch.sha256 if patch.sha256 in hashes else hashes[0]
    return found


def public_version(text: str) -> Version:
    """Read a version without its local part.

    Raises:
        SpecdeckError: it is none.
    """
    try:
        return Version(Version(text).public)
    except InvalidVersion:
        raise SpecdeckError(f"{text!r} is not a version", where="--as", fix="name one such as 0.32.0") from None
