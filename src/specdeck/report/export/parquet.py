"""Every request of a run as one Parquet table, for notebooks: `pandas.read_parquet("requests.parquet")`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.stats.observations import time_per_output_token

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    from specdeck.results.schema import Cell, RequestRecord, Run

FILE = "requests.parquet"
COLUMNS: dict[str, str] = {
    "run_id": "string", "arm": "string", "cell_id": "string", "concurrency": "int32", "round": "int32",
    "cell_valid": "bool", "request_id": "string", "index": "int32", "prompt_id": "string", "category": "string",
    "scheduled_s": "double", "sent_s": "double", "first_token_s": "double", "last_token_s": "double",
    "end_s": "double", "ttft_s": "double", "tpot_s": "double", "e2e_s": "double", "prompt_tokens": "int64",
    "cached_tokens": "int64", "completion_tokens": "int64", "spec_steps": "int64", "draft_tokens": "int64",
    "accepted_tokens": "int64", "finish_reason": "string", "error": "string", "text_sha256": "string",
}  # fmt: skip
"""Name and type of each column. Times are seconds since the cell's start, or durations; missing is null."""

BATCH = 10_000
"""Records that stand in memory as objects."""


def schema() -> pa.Schema:
    """Names and types of the columns.

    Raises:
        SpecdeckError: pyarrow, an optional dependency, is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - large and optional
    except ImportError as error:
        raise SpecdeckError(
            f"Parquet needs pyarrow, which cannot be imported: {error}",
            where="--format parquet",
            fix=".venv/bin/python -m pip install 'pyarrow>=20'",
        ) from error
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])


def writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    """A file that takes tables of these columns; closed at the end of its `with`."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - large and optional

    return pq.ParquetWriter(path, columns, compression="zstd")


def table(run: Run, cell: Cell, records: Iterable[RequestRecord]) -> pa.Table:
    """A row for each request of a cell, failed ones and those of invalid cells included and marked.

    Raises:
        SpecdeckError: pyarrow, an optional dependency, is not installed.
    """
    columns = schema()
    import pyarrow as pa  # noqa: PLC0415 - large and optional

    source, batches = iter(records), []
    while batch := list(islice(source, BATCH)):
        values = _values(run, cell, batch)
        batches.append(pa.record_batch([pa.array(values[field.name], type=field.type) for field in columns], columns))
    return pa.Table.from_batches(batches, columns)


def _values(run: Run, cell: Cell, batch: list[RequestRecord]) -> dict[str, list[Any]]:
    """Name to values, one a record."""
    same = {
        "run_id": run.run_id,
        "arm": cell.arm,
        "cell_id": cell.cell_id,
        "concurrency": cell.concurrency,
        "round": cell.round,
        "cell_valid": cell.status == "ok",
    }
    as_stored = (
        "request_id", "index", "prompt_id", "category", "scheduled_s", "sent_s", "first_token_s", "last_token_s",
        "end_s", "prompt_tokens", "cached_tokens", "completion_tokens", "finish_reason", "text_sha256",
    )  # fmt: skip
    return {
        **{name: [value] * len(batch) for name, value in same.items()},
        **{name: [getattr(r, name) for r in batch] for name in as_stored},
        "ttft_s": [None if r.error or r.first_token_s is None else r.first_token_s - r.scheduled_s for r in batch],
        "tpot_s": [None if r.error else time_per_output_token(r) for r in batch],
        "e2e_s": [None if r.error else r.end_s - r.scheduled_s for r in batch],
        "spec_steps": [r.spec.num_spec_steps if r.spec else None for r in batch],
        "draft_tokens": [r.spec.num_draft_tokens if r.spec else None for r in batch],
        "accepted_tokens": [r.spec.num_accepted_draft_tokens if r.spec else None for r in batch],
        "error": [r.error.kind if r.error else None for r in batch],
    }
