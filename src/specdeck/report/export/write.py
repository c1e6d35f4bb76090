"""Writes exports of a stored run cell by cell: no more than a few cells stand in memory, and all cores are used.

Every function returns how many files it wrote and what was damaged and is in none of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.report.export import parquet, prometheus, vllm_bench
from specdeck.report.load import DAMAGED, cell_note, load, load_cells, whole_records
from specdeck.report.pool import each_cell
from specdeck.results.atomic import replace_file, replacing
from specdeck.results.kind import require_measured

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from specdeck.results.schema import Cell, Run
    from specdeck.stats.model import Note

WHAT = "an export: other tools would take its figures for a drafter's"


def prometheus_textfile(run_dir: Path, target: Path) -> tuple[int, list[Note]]:
    """Write the figures of the report.

    Raises:
        SpecdeckError: there is no run, or its acceptance is synthetic.
        OSError: nothing was written.
    """
    run, summary = load(run_dir)
    require_measured(run, WHAT)
    target.mkdir(parents=True, exist_ok=True)
    replace_file(target / "specdeck.prom", prometheus.render(summary).encode())
    return 1, [note for note in summary.findings if note.code == DAMAGED]


def parquet_table(run_dir: Path, target: Path) -> tuple[int, list[Note]]:
    """Write all requests, row groups of a cell or less.

    Raises:
        SpecdeckError: there is no run, its acceptance is synthetic, or pyarrow is not installed.
        OSError: nothing was written.
    """
    run, cells, damaged = _measured(run_dir)
    schema = parquet.schema()
    target.mkdir(parents=True, exist_ok=True)
    with replacing(target / parquet.FILE) as beside, parquet.writer(beside, schema) as file:
        for cell, found in each_cell(run_dir, cells, partial(_rows, run)):
            if isinstance(found, SpecdeckError):
                damaged.append(cell_note(run_dir, cell, found))
            else:
                file.write_table(found)
    return 1, damaged


def vllm_bench_files(run_dir: Path, target: Path, percentiles: Sequence[float]) -> tuple[int, list[Note]]:
    """Write a file a cell.

    Raises:
        SpecdeckError: there is no run, or its acceptance is synthetic.
        OSError: the files of some cells are there, each of them whole.
    """
    run, cells, damaged = _measured(run_dir)
    target.mkdir(parents=True, exist_ok=True)
    written = 0
    for cell, error in each_cell(run_dir, cells, partial(_result_file, run, target, tuple(percentiles))):
        written += error is None
        if error is not None:
            damaged.append(cell_note(run_dir, cell, error))
    return written, damaged


def _measured(run_dir: Path) -> tuple[Run, list[Cell], list[Note]]:
    run, cells, damaged = load_cells(run_dir)
    require_measured(run, WHAT)
    return run, cells, damaged


def _rows(run: Run, run_dir: Path, cell: Cell) -> pa.Table | SpecdeckError:
    try:
        return parquet.table(run, cell, whole_records(run_dir, cell))
    except SpecdeckError as error:
        return error


def _result_file(
    run: Run, target: Path, percentiles: tuple[float, ...], run_dir: Path, cell: Cell
) -> SpecdeckError | None:
    try:
        found = vllm_bench.render(run, cell, list(whole_records(run_dir, cell)), percentiles)
    except SpecdeckError as error:
        return error
    replace_file(target / vllm_bench.file_name(cell), msgspec.json.encode(found))
    return None
