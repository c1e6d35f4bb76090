"""Work on the cells of a run, one after another or by all cores. Results come in the order of the cells."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from specdeck.results.store import REQUESTS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from specdeck.results.schema import Cell

PARALLEL_BYTES = 64 * 1024 * 1024
"""From this size on starting processes pays."""
MAX_WORKERS = 8
T = TypeVar("T")


def each_cell(run_dir: Path, cells: Sequence[Cell], work: Callable[[Path, Cell], T]) -> Iterator[tuple[Cell, T]]:
    """Apply `work`, a function of a module, to each cell. Few results are waiting at a time, however many cells.

    Args:
        run_dir: the run's folder.
        cells: of that run.
        work: called with the folder and a cell; its results must be picklable. Raises nothing that is expected.
    """
    files = [run_dir / cell.arm / cell.cell_id / REQUESTS_FILE for cell in cells]
    size = sum(file.stat().st_size for file in files if file.is_file())
    workers = min(len(os.sched_getaffinity(0)), len(cells), MAX_WORKERS)
    if size < PARALLEL_BYTES or workers < 2:
        for cell in cells:
            yield cell, work(run_dir, cell)
        return
    # Not by fork: a report at the end of a bench is made beside threads whose locks a forked child would inherit.
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting: deque[tuple[Cell, Future[T]]] = deque()
        for cell in cells:
            if len(waiting) > workers:
                first, future = waiting.popleft()
                yield first, future.result()
            waiting.append((cell, pool.submit(partial(work, run_dir), cell)))
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
