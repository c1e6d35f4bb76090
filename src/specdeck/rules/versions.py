"""Which vLLM versions a specifier admits, among those the rules know and those it names itself."""

from __future__ import annotations

import re

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

RELEASES = tuple(Version(v) for v in ("0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"))
"""Releases that the evidence of the rules speaks about."""
NEXT = (Version("0.34.0"), Version("1.0.0"))
"""Stand for releases that come after the last one known."""
_TAG = re.compile(r"[:/]v?(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?:[-@]|$)")


def admitted(specifier: str) -> tuple[Version, ...]:
    """Return the versions that a PEP 440 specifier admits: known releases, later ones, and versions it names."""
    wanted = SpecifierSet(specifier, prereleases=True)
    named = []
    for part in wanted:
        try:
            named.append(Version(part.version.removesuffix(".*")))
        except InvalidVersion:
            continue
    return tuple(sorted(v for v in {*RELEASES, *NEXT, *named} if v in wanted))


def newer_than(version: Version, checked: str) -> bool:
    """Whether a version is beyond the range a rule was checked against."""
    return version not in SpecifierSet(checked, prereleases=True) and version > RELEASES[-1]


def of_image(image: str) -> Version | None:
    """Return the version that an image's tag names; None when it names none."""
    found = _TAG.search(image)
    return Version(found.group(1)) if found else None
