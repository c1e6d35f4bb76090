"""Reading a stored run for a report: whole cells as columns, damaged ones by name. Large runs are read by all cores."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.results.schema import Cell
from specdeck.results.store import REQUESTS_FILE, RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from specdeck.results.schema import RequestRecord, Run
    from specdeck.stats.columns import CellColumns, Requests
    from specdeck.stats.model import Note, Summary

PARALLEL_BYTES = 64 * 1024 * 1024
"""From this size on starting processes pays."""
DAMAGED = "damaged"
"""The finding of a cell that cannot be read."""


def load(run_dir: Path) -> tuple[Run, Summary]:
    """Read a run and its cells, and compute its figures. A damaged cell is in none of them and is a finding.

    Raises:
        SpecdeckError: there is no run, or its run.json is damaged.
    """
    from specdeck.stats.summary import summarize  # noqa: PLC0415 - comparisons read runs without summing them up

    run, cells, damaged = load_requests(run_dir)
    return run, summarize(run, cells, damaged)


def load_cells(run_dir: Path) -> tuple[Run, list[tuple[Cell, list[RequestRecord]]]]:
    """Read a run with its cells and all their records, in measuring order.

    Raises:
        SpecdeckError: there is no run, or a file of it is damaged; it is named.
    """
    store = RunStore.open(run_dir)
    return store.run(), [(cell, store.records(cell.arm, cell.cell_id)) for cell, _ in store.cells()]


def load_requests(run_dir: Path) -> tuple[Run, list[tuple[Cell, Sequence[RequestRecord]]], list[Note]]:
    """Read a run with its cells in measuring order, the requests of valid ones as columns, and what is damaged.

    Raises:
        SpecdeckError: there is no run, or its run.json is damaged.
    """
    store = RunStore.open(run_dir)
    found = store.each_cell()
    damaged = [_note(run_dir, folder, error) for folder, error in found if isinstance(error, SpecdeckError)]
    cells = [(folder, cell) for folder, cell in found if isinstance(cell, Cell)]
    read = _read_all(run_dir, [cell for _, cell in cells if cell.status == "ok"])
    whole: list[tuple[Cell, Sequence[RequestRecord]]] = []
    for folder, cell in cells:
        requests = read.get((cell.arm, cell.cell_id), ())
        if isinstance(requests, SpecdeckError):
            damaged.append(_note(run_dir, folder, requests))
        else:
            whole.append((cell, requests))
    return store.run(), whole, damaged


def _read_all(run_dir: Path, cells: Sequence[Cell]) -> dict[tuple[str, str], Requests | SpecdeckError]:
    from specdeck.stats.columns import Requests  # noqa: PLC0415 - `--help` must not pay for numpy

    files = [run_dir / cell.arm / cell.cell_id / REQUESTS_FILE for cell in cells]
    size = sum(file.stat().st_size for file in files if file.is_file())
    workers = min(len(os.sched_getaffinity(0)), len(cells), 8)
    reduce_ = partial(_columns, run_dir)
    if size < PARALLEL_BYTES or workers < 2:
        reduced = [reduce_(cell) for cell in cells]
    else:
        # Not by fork: a report at the end of a bench is made beside threads whose locks a forked child would inherit.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            reduced = list(pool.map(reduce_, cells))
    return {
        (cell.arm, cell.cell_id): found
        if isinstance(found, SpecdeckError)
        else Requests(found, partial(_records, run_dir, cell.arm, cell.cell_id))
        for cell, found in zip(cells, reduced, strict=True)
    }


def _columns(run_dir: Path, cell: Cell) -> CellColumns | SpecdeckError:
    from specdeck.stats.columns import columns  # noqa: PLC0415

    try:
        found = columns(cell, RunStore(run_dir, None).each_record(cell.arm, cell.cell_id))
    except SpecdeckError as error:
        return error
    if found.total != cell.num_requests:
        return SpecdeckError(
            f"a result file is damaged: it has {found.total} requests, its cell had {cell.num_requests}",
            where=str(run_dir / cell.arm / cell.cell_id / REQUESTS_FILE),
            fix="restore it from a copy, or remove its folder and measure that part again",
        )
    return found


def _records(run_dir: Path, arm: str, cell_id: str) -> list[RequestRecord]:
    return RunStore(run_dir, None).records(arm, cell_id)


def _note(run_dir: Path, folder: Path, error: SpecdeckError) -> Note:
    from specdeck.stats.model import Note  # noqa: PLC0415

    where = (error.where or str(folder)).removeprefix(f"{run_dir}/")
    return Note(
        code=DAMAGED,
        severity="invalid",
        message=f"{where}: {error.what}",
        arm=folder.parent.name,
        cell_id=folder.name,
    )
