"""Reading a stored run for a report: whole cells as columns, damaged ones by name. Large runs are read by all cores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.report.pool import each_cell
from specdeck.results.quality import CheckResult, each_check
from specdeck.results.schema import Cell
from specdeck.results.store import REQUESTS_FILE, RunStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from specdeck.results.schema import RequestRecord, Run
    from specdeck.stats.columns import CellColumns, Requests
    from specdeck.stats.model import Note, Summary

DAMAGED = "damaged"
"""The finding of a cell or a check that cannot be read."""


def load(run_dir: Path) -> tuple[Run, Summary]:
    """Read a run, its cells and its quality checks, and compute its figures. What is damaged is a finding only.

    Raises:
        SpecdeckError: there is no run, or its run.json is damaged.
    """
    from specdeck.stats.summary import summarize  # noqa: PLC0415 - comparisons read runs without summing them up

    run, cells, damaged = load_requests(run_dir)
    checks, unread = load_checks(run_dir)
    summary = summarize(run, cells, damaged)
    told = tuple(msgspec.structs.replace(check, details={}) for check in checks)
    return run, msgspec.structs.replace(summary, quality=told, findings=(*unread, *summary.findings))


def load_requests(run_dir: Path) -> tuple[Run, list[tuple[Cell, Sequence[RequestRecord]]], list[Note]]:
    """Read a run with its cells in measuring order, the requests of valid ones as columns, and what is damaged.

    Raises:
        SpecdeckError: there is no run, or its run.json is damaged.
    """
    run, cells, damaged = load_cells(run_dir)
    valid = [cell for cell in cells if cell.status == "ok"]
    read = {(cell.arm, cell.cell_id): found for cell, found in each_cell(run_dir, valid, _columns)}
    whole: list[tuple[Cell, Sequence[RequestRecord]]] = []
    for cell in cells:
        found = read.get((cell.arm, cell.cell_id), ())
        if isinstance(found, SpecdeckError):
            damaged.append(cell_note(run_dir, cell, found))
        else:
            whole.append((cell, found if isinstance(found, tuple) else _requests(run_dir, cell, found)))
    return run, whole, damaged


def load_cells(run_dir: Path) -> tuple[Run, list[Cell], list[Note]]:
    """Read a run with its cells in measuring order, without their requests, and what is damaged.

    Raises:
        SpecdeckError: there is no run, or its run.json is damaged.
    """
    store = RunStore.open(run_dir)
    found = store.each_cell()
    damaged = [
        _note(run_dir, folder, error, folder.parent.name, folder.name)
        for folder, error in found
        if isinstance(error, SpecdeckError)
    ]
    return store.run(), [cell for _, cell in found if isinstance(cell, Cell)], damaged


def load_checks(run_dir: Path) -> tuple[tuple[CheckResult, ...], list[Note]]:
    """Read what quality checks left beside a run, and which of it is damaged."""
    found = each_check(run_dir)
    damaged = [_note(run_dir, file, error) for file, error in found if isinstance(error, SpecdeckError)]
    return tuple(result for _, result in found if isinstance(result, CheckResult)), damaged


def whole_records(run_dir: Path, cell: Cell) -> Iterator[RequestRecord]:
    """A cell's records one by one.

    Raises:
        SpecdeckError: the file is damaged, or has not as many as its cell; that shows at its end.
    """
    number = 0
    for number, record in enumerate(RunStore(run_dir, None).each_record(cell.arm, cell.cell_id), 1):  # noqa: B007
        yield record
    if number != cell.num_requests:
        raise SpecdeckError(
            f"a result file is damaged: it has {number} requests, its cell had {cell.num_requests}",
            where=str(run_dir / cell.arm / cell.cell_id / REQUESTS_FILE),
            fix="restore it from a copy, or remove its folder and measure that part again",
        )


def cell_note(run_dir: Path, cell: Cell, error: SpecdeckError) -> Note:
    """The finding of a cell that turned out to be damaged."""
    return _note(run_dir, run_dir / cell.arm / cell.cell_id, error, cell.arm, cell.cell_id)


def _columns(run_dir: Path, cell: Cell) -> CellColumns | SpecdeckError:
    from specdeck.stats.columns import columns  # noqa: PLC0415 - `--help` must not pay for numpy

    try:
        return columns(cell, whole_records(run_dir, cell))
    except SpecdeckError as error:
        return error


def _requests(run_dir: Path, cell: Cell, found: CellColumns) -> Requests:
    from specdeck.stats.columns import Requests  # noqa: PLC0415

    return Requests(found, partial(_records, run_dir, cell.arm, cell.cell_id))


def _records(run_dir: Path, arm: str, cell_id: str) -> list[RequestRecord]:
    return RunStore(run_dir, None).records(arm, cell_id)


def _note(run_dir: Path, path: Path, error: SpecdeckError, arm: str | None = None, cell_id: str | None = None) -> Note:
    from specdeck.stats.model import Note  # noqa: PLC0415

    where = (error.where or str(path)).removeprefix(f"{run_dir}/")
    return Note(code=DAMAGED, severity="invalid", message=f"{where}: {error.what}", arm=arm, cell_id=cell_id)
