"""Questions with right answers: JSONL in bench/questions, one a line, in the layout of GSM8K.

A file is never changed once scores are recorded for it: other questions get another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.quality.texts import Word, load_lines

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "questions"
_MARK = "\n#### "


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question; `answer` is a worked answer, then a line `#### NUMBER`."""

    id: Word
    question: Word
    answer: Word

    def __post_init__(self) -> None:
        """Refuse an answer without its number (ValueError)."""
        if not self.number.strip():
            raise ValueError("the answer does not end with a line `#### NUMBER`")

    @property
    def worked(self) -> str:
        """The answer as a model would write it."""
        return self.answer.partition(_MARK)[0]

    @property
    def number(self) -> str:
        """What a right answer ends with."""
        return self.answer.partition(_MARK)[2].strip()


def load_questions(root: Path, name: str) -> list[Question]:
    """Read bench/questions/NAME.jsonl.

    Raises:
        SpecdeckError: missing, empty, or a line is no question; with file and line.
    """
    return load_lines(root, FOLDER, name, Question)
