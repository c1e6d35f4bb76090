"""The order in which the cells of an experiment are measured: rounds outside, arms rotated, concurrencies inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class CellKey:
    """Which cell: `order` counts from 1 over the whole run and is what a timeline sorts by."""

    order: int
    round: int
    arm: str
    concurrency: int

    @property
    def cell_id(self) -> str:
        """Name of the cell's directory below its arm."""
        return f"c{self.concurrency}-r{self.round}"


def schedule(arms: Sequence[str], concurrency: Sequence[int], rounds: int) -> list[CellKey]:
    """List every cell in measuring order.

    Round r starts with arm (r − 1) mod len(arms), so that over len(arms) rounds every arm stands once at every
    place and slow drift of the host does not favour one of them.
    """
    keys: list[CellKey] = []
    for round_ in range(1, rounds + 1):
        shift = (round_ - 1) % len(arms)
        for arm in (*arms[shift:], *arms[:shift]):
            for level in concurrency:
                keys.append(CellKey(order=len(keys) + 1, round=round_, arm=arm, concurrency=level))
    return keys
