"""Acceptance length of sums of accepted drafts and verification steps: 1 + accepted / steps, bonus token included."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.stats.bootstrap import FloatArray


def lengths(sums: FloatArray) -> FloatArray:
    """Acceptance lengths of rows (accepted, steps, …): shape (rows, k) -> (rows,)."""
    found: FloatArray = 1 + sums[:, 0] / sums[:, 1]
    return found


def accepted_ratio(sums: FloatArray) -> FloatArray:
    """Drafts accepted a step against another time's: rows (accepted, steps, accepted then, steps then) -> (rows,)."""
    found: FloatArray = sums[:, 0] / sums[:, 1] / (sums[:, 2] / sums[:, 3])
    return found


def acceptance_length(found: Sequence[tuple[int | None, int | None]]) -> float | None:
    """Acceptance length of answers' (accepted, steps); None where none of them was drafted for."""
    steps = sum(steps or 0 for _, steps in found)
    return 1 + sum(accepted or 0 for accepted, _ in found) / steps if steps else None
