"""Whether arms wrote the same text: a drafter must not change greedy output, and this counts where it did."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.columns import Requests
from specdeck.stats.model import Difference, EqualText
from specdeck.stats.observations import join, pairs, quotient

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.results.schema import Cell, RequestRecord

    Measured = Sequence[tuple[Cell, Sequence[RequestRecord]]]

MOST_DIFFERENCES = 1_000
"""Differing answers that are named; all of them are counted."""


def equal_text(arm: str, ours: Measured, base: Measured) -> EqualText:
    """Compare texts by their hashes, over what both arms answered with the same prompt, round and concurrency."""
    mine, other = _Texts(ours), _Texts(base)
    a, b = pairs(mine.seen, other.seen)
    known = (mine.hashes[a] != b"") & (other.hashes[b] != b"")
    a, b = a[known], b[known]
    differ = mine.hashes[a] != other.hashes[b]
    named = list(zip(a[differ][:MOST_DIFFERENCES].tolist(), b[differ][:MOST_DIFFERENCES].tolist(), strict=True))
    texts, others = mine.texts(i for i, _ in named), other.texts(i for _, i in named)
    keys = mine.seen.keys if named else ()
    return EqualText(
        arm=arm,
        compared=len(a),
        equal=len(a) - int(differ.sum()),
        share=quotient(len(a) - int(differ.sum()), len(a)),
        differences=tuple(
            Difference(
                prompt_id=keys[i][2],
                concurrency=keys[i][0],
                round=keys[i][1],
                first_difference=first_difference(texts[i], others[j]),
            )
            for i, j in named
        ),
    )


class _Texts:
    """Hashes of an arm's answers, and the answers themselves where they are asked for."""

    def __init__(self, cells: Measured) -> None:
        self._cells = [Requests.of(cell, records) for cell, records in cells]
        self.seen = join([part.columns.seen for part in self._cells])
        self.hashes = np.concatenate([np.empty(0, dtype="S64"), *(part.columns.hashes for part in self._cells)])

    def texts(self, wanted: Iterable[int]) -> dict[int, str]:
        """Whole answers by their place in `seen`; each cell that has one is read once."""
        places, start = sorted(wanted), 0
        found: dict[int, str] = {}
        for part in self._cells:
            size = len(part.columns.seen)
            rows = {int(part.columns.place[i - start]): i for i in places if start <= i < start + size}
            if rows:
                found |= {rows[n]: record.reasoning + record.text for n, record in enumerate(part) if n in rows}
            start += size
        return found


def first_difference(a: str, b: str) -> int | None:
    """Index of the first character that differs (the shorter's length where one continues the other), None if equal."""
    if a == b:
        return None
    return next(i for i, (x, y) in enumerate(zip_longest(a, b)) if x != y)
