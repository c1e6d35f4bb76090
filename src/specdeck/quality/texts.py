"""Fixed texts for the perplexity check: JSONL in bench/texts, a document a line.

A file is never changed once a value is recorded for it: another text gets another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "texts"
Word = Annotated[str, msgspec.Meta(min_length=1)]
LineT = TypeVar("LineT", bound=msgspec.Struct)


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One text with the domain it stands for. `context` comes before it and is not scored."""

    id: Word
    domain: Word
    text: Word
    context: str = ""


def load_documents(root: Path, name: str) -> list[Document]:
    """Read bench/texts/NAME.jsonl.

    Raises:
        SpecdeckError: missing, empty, or a line is no document; with file and line.
    """
    return load_lines(root, FOLDER, name, Document)


def load_lines(root: Path, folder: str, name: str, kind: type[LineT]) -> list[LineT]:
    """Read bench/FOLDER/NAME.jsonl, a `kind` a line.

    Raises:
        SpecdeckError: missing, empty, or a line is something else; with file and line.
    """
    path = root / "bench" / folder / f"{name}.jsonl"
    known = ", ".join(sorted(file.stem for file in path.parent.glob("*.jsonl")))
    if not path.is_file():
        raise SpecdeckError(f"there are no {folder} called {name!r}", where=str(path), fix=f"{folder}: one of {known}")
    found: list[LineT] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SpecdeckError(
                f"the line is none of {folder}: {error}", where=f"{path}:{number}", fix=f"git checkout {path}"
            ) from error
    if not found:
        raise SpecdeckError("there is nothing in it", where=str(path), fix=f"git checkout {path}")
    return found
