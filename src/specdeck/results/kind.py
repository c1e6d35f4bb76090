"""Runs whose acceptance was asked for are of a kind of their own: they tell step times, and nothing about a drafter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from specdeck.results.schema import Run

SYNTHETIC_NOTICE = "at an assumed acceptance: no drafter was judged"


def require_measured(run: Run, use: str) -> None:
    """Refuse a run of synthetic acceptance where acceptance, texts or throughput would be taken for measured.

    Args:
        run: any run.
        use: what it was wanted for, as in `a comparison`.

    Raises:
        SpecdeckError: the run's acceptance was asked for, not measured.
    """
    if run.acceptance_kind != "measured":
        raise SpecdeckError(
            f"the acceptance of this run was asked for, not measured: it cannot be used for {use}",
            where=run.run_id,
            fix="measure with real weights (specdeck bench RECIPE, without --synthetic-acceptance); "
            f"its step times are shown by specdeck report {run.run_id}",
        )
