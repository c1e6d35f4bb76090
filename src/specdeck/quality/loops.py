"""Finds an answer that ends in a loop: the same few tokens again and again until the budget is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MAX_PERIOD = 32
MIN_REPEATS, MIN_TOKENS = 4, 24


def loop_period(tokens: Sequence[Hashable]) -> int | None:
    """The shortest period with which an answer's end repeats, or None.

    The end must repeat at least MIN_REPEATS times and over at least MIN_TOKENS tokens, so that a table's rules or a
    short refrain are no loop.
    """
    for period in range(1, min(MAX_PERIOD, len(tokens) // MIN_REPEATS) + 1):
        same = 0
        for i in range(len(tokens) - 1, period - 1, -1):
            if tokens[i] != tokens[i - period]:
                break
            same += 1
        if same + period >= max(MIN_REPEATS * period, MIN_TOKENS):
            return period
    return None
