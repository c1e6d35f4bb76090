"""What a sweep over draft lengths accepted, beside what its longest draft predicts for the shorter ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.results.schema import Strict
from specdeck.stats.tune import acceptance_by_length

if TYPE_CHECKING:
    from pathlib import Path


class SweepArm(Strict, frozen=True, kw_only=True):
    """Counters of one draft length: verification steps, and how many of them accepted each position."""

    method: str
    n: int
    drafts: int
    accepted_per_pos: tuple[int, ...]

    @property
    def rates(self) -> list[float]:
        """Share of drafts whose token i was accepted, from position 1."""
        return [count / self.drafts for count in self.accepted_per_pos]


class Sweep(Strict, frozen=True, kw_only=True):
    """A sweep, where it comes from, and its arms by name."""

    run_id: str
    vllm: str
    recipe: str
    plan: str
    note: str
    arms: dict[str, SweepArm]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep.

    Raises:
        SpecdeckError: it cannot be read or is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sweep)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecdeckError(
            f"the sweep cannot be read: {error}", where=str(path), fix="restore it: git checkout"
        ) from error


def predictions(sweep: Sweep) -> list[tuple[SweepArm, int, float, float]]:
    """Each shorter arm with the longest measured n of its method, the measured and the predicted acceptance length."""
    found = []
    for method in dict.fromkeys(arm.method for arm in sweep.arms.values()):
        arms = sorted((arm for arm in sweep.arms.values() if arm.method == method), key=lambda arm: arm.n)
        by_length = acceptance_by_length(arms[-1].rates, arms[-1].n)
        found += [(arm, arms[-1].n, 1 + sum(arm.rates), by_length[arm.n - 1]) for arm in arms[:-1]]
    return found


def table(path: Path) -> str:
    """The predictions of a sweep as a Markdown table."""
    lines = ["| method | n | measured | predicted | from n | error |", "|---|--:|--:|--:|--:|--:|"]
    for arm, source, measured, predicted in predictions(read_sweep(path)):
        error = f"{100 * (predicted / measured - 1):+.1f} %".replace("-", "−")
        lines.append(f"| {arm.method} | {arm.n} | {measured:.2f} | {predicted:.2f} | {source} | {error} |")
    return "\n".join(lines)
