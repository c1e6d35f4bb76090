"""Reading a stored run for a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.results.store import RunStore

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.results.schema import Cell, RequestRecord, Run
    from specdeck.stats.model import Summary


def load(run_dir: Path) -> tuple[Run, Summary]:
    """Read a run and its cells, and compute its figures.

    Raises:
        SpecdeckError: there is no run, or a file of it is damaged; it is named.
    """
    from specdeck.stats.summary import summarize  # noqa: PLC0415 - comparisons read runs without summing them up

    run, cells = load_cells(run_dir)
    return run, summarize(run, cells)


def load_cells(run_dir: Path) -> tuple[Run, list[tuple[Cell, list[RequestRecord]]]]:
    """Read a run with its cells and their records, in measuring order.

    Raises:
        SpecdeckError: there is no run, or a file of it is damaged; it is named.
    """
    store = RunStore.open(run_dir)
    return store.run(), [(cell, store.records(cell.arm, cell.cell_id)) for cell, _ in store.cells()]
