"""The table of what an archive costs says what its file says, and how the cost grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.report.storage import NOT_MEASURED, RESULTS, storage_table

if TYPE_CHECKING:
    from pathlib import Path


def measured(cells: int, write_s: float) -> dict[str, object]:
    query = {"one_recipe": 0.1, "every_recipe": 0.2, "newest_against_before": 0.3}
    return {
        "cells": cells, "write_s": write_s, "slowest_add_s": 1.0, "cells_an_add": 10, "merge_s": 2.0,
        "bytes": 1_500_000, "peak_mb": 100.0, "query_s": query, "query_s_before_merge": query,
    }  # fmt: skip


def write(root: Path, results: list[dict[str, object]]) -> None:
    (root / RESULTS).parent.mkdir(parents=True)
    machine = {"cpu": "Example", "cores": 2, "python": "3.11", "duckdb": "1", "pyarrow": "2"}
    document = {"command": "make perf-storage", "date": "2026-01-02", "machine": machine, "results": results}
    (root / RESULTS).write_text(json.dumps(document))


def test_each_size_is_a_column_and_growth_is_the_exponent_of_a_power_law(tmp_path: Path) -> None:
    write(tmp_path, [measured(1_000, 1.0), measured(100, 0.01), measured(10, 0.0001)])
    lines = storage_table(tmp_path, "").splitlines()
    assert lines[0] == "| | 10 cells | 100 cells | 1,000 cells | grows as |"
    assert lines[2] == "| add all, s | 0.00 | 0.01 | 1.00 | n^2.00 |"
    assert "| size, MB | 1.5 | 1.5 | 1.5 | n^0.00 |" in lines
    assert lines[-1].startswith("`make perf-storage`, 2026-01-02: Example, 2 cores")


def test_one_size_has_no_growth_and_no_file_is_said(tmp_path: Path) -> None:
    assert storage_table(tmp_path, "") == NOT_MEASURED
    write(tmp_path, [measured(10, 1.0)])
    assert "| add all, s | 1.00 | – |" in storage_table(tmp_path, "")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, [{"cells": 10}])
    with pytest.raises(SpecdeckError, match=RESULTS):
        storage_table(tmp_path, "")
