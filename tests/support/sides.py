"""Measurements for tests of comparisons: an exact base, its repetition, and candidates with one thing wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from support.runs import Cells, cell, counters_of, payload, record, run

from specdeck.gates.measurement import measurement

if TYPE_CHECKING:
    from specdeck.gates.measurement import Measurement
    from specdeck.results.quality import CheckResult
    from specdeck.results.schema import Finding, Run

ARMS = ("none", "mtp")


def side(
    name: str,
    *,
    slower: float = 1.0,
    accepted: int = 2,
    first: float = 1.0,
    seed: int = 0,
    finding: Finding | None = None,
    failed: int = 0,
    arms: tuple[str, ...] = ARMS,
    slow_arms: tuple[str, ...] = ARMS,
    **changes: Any,
) -> tuple[Run, Cells]:
    """A run of 12 prompts × 2 rounds at concurrency 1 whose requests wobble by 1 %.

    Args:
        name: the run's id.
        slower: factor on the time per output token.
        accepted: tokens that every other step of mtp accepts; the others accept one.
        first: factor on the time to the first token.
        seed: of the wobble.
        finding: put on the first cell.
        failed: requests of the first cell that fail.
        arms: which arms are measured.
        slow_arms: the arms that `slower` concerns.
        changes: fields of the run.
    """
    generator = np.random.default_rng(seed)
    cells: Cells = []
    for arm in arms:
        for number in (1, 2):
            records, now = [], 0.0
            for i in range(12):
                token = 0.01 * (1 + i / 20) * (slower if arm in slow_arms else 1) * float(generator.normal(1, 0.01))
                start = 0.2 * first * float(generator.normal(1, 0.01))
                broken = i < failed and not cells
                records.append(
                    record(
                        f"p{i:02d}",
                        index=i,
                        scheduled=now,
                        first=now + start,
                        last=now + start + 100 * token,
                        end=now + start + 100 * token,
                        tokens=101,
                        spec=payload(*([accepted, 1] * 20), n=3) if arm == "mtp" else None,
                        failed=broken,
                    )
                )
                now = records[-1].end_s
            made = cell(
                arm,
                round_=number,
                duration=now,
                counters=counters_of(records, 3 if arm == "mtp" else None),
                findings=(finding,) if finding and not cells else (),
                records=records,
            )
            cells.append((made, records))
    return run(arms, run_id=name, num_prompts=12, **changes), cells


def measured(name: str, quality: tuple[CheckResult, ...] = (), **what: Any) -> Measurement:
    """The measurement of a side."""
    return measurement(*side(name, **what), quality)


def with_floors(base: Measurement) -> Measurement:
    """The base with the noise floors of a repetition."""
    from dataclasses import replace as changed  # noqa: PLC0415

    from specdeck.gates.baseline import floors_of  # noqa: PLC0415

    return changed(base, floors=floors_of(base, measured("again", seed=1)), floor_from="again")
