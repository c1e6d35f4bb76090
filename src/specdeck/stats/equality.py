"""Whether arms wrote the same text: a drafter must not change greedy output, and this counts where it did."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING

from specdeck.stats.model import Difference, EqualText
from specdeck.stats.observations import quotient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import Cell, RequestRecord
    from specdeck.stats.observations import Key


def texts(cells: Sequence[tuple[Cell, Sequence[RequestRecord]]]) -> dict[Key, RequestRecord]:
    """Answered requests that have a text hash, by (concurrency, round, prompt id, occurrence)."""
    found: dict[Key, RequestRecord] = {}
    for cell, records in cells:
        seen: Counter[str] = Counter()
        for record in sorted(records, key=lambda r: r.index):
            key = (cell.concurrency, cell.round, record.prompt_id, seen[record.prompt_id])
            seen[record.prompt_id] += 1
            if record.error is None and record.text_sha256 is not None:
                found[key] = record
    return found


def equal_text(arm: str, ours: dict[Key, RequestRecord], base: dict[Key, RequestRecord]) -> EqualText:
    """Compare texts by their hashes, over what both arms answered."""
    shared = sorted(ours.keys() & base.keys())
    different = [key for key in shared if ours[key].text_sha256 != base[key].text_sha256]
    return EqualText(
        arm=arm,
        compared=len(shared),
        equal=len(shared) - len(different),
        share=quotient(len(shared) - len(different), len(shared)),
        differences=tuple(
            Difference(
                prompt_id=key[2],
                concurrency=key[0],
                round=key[1],
                first_difference=first_difference(_whole(ours[key]), _whole(base[key])),
            )
            for key in different
        ),
    )


def first_difference(a: str, b: str) -> int | None:
    """Index of the first character that differs (the shorter's length where one continues the other), None if equal."""
    if a == b:
        return None
    return next(i for i, (x, y) in enumerate(zip_longest(a, b)) if x != y)


def _whole(record: RequestRecord) -> str:
    return record.reasoning + record.text
