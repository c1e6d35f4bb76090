"""Every request of a run as one Parquet table, for notebooks: `pandas.read_parquet("requests.parquet")`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.stats.observations import time_per_output_token

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def render(run: Run, cells: Sequence[tuple[Cell, Sequence[RequestRecord]]]) -> bytes:
    """Return the file: a row for each request, failed ones and those of invalid cells included and marked.

    Raises:
        SpecdeckError: pyarrow, an optional dependency, is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - large and optional
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise SpecdeckError(
            f"Parquet needs pyarrow, which cannot be imported: {error}",
            where="--format parquet",
            fix=".venv/bin/python -m pip install 'pyarrow>=20'",
        ) from error
    rows = [_row(run, cell, record) for cell, records in cells for record in records]
    columns = [pa.array([row[name] for row in rows], type=kind) for name, kind in COLUMNS.items()]
    out = io.BytesIO()
    pq.write_table(pa.table(columns, names=list(COLUMNS)), out, compression="zstd")
    return out.getvalue()


def _row(run: Run, cell: Cell, record: RequestRecord) -> dict[str, Any]:
    spec, first = record.spec, record.first_token_s
    return {
        "run_id": run.run_id,
        "arm": cell.arm,
        "cell_id": cell.cell_id,
        "concurrency": cell.concurrency,
        "round": cell.round,
        "cell_valid": cell.status == "ok",
        "request_id": record.request_id,
        "index": record.index,
        "prompt_id": record.prompt_id,
        "category": record.category,
        "scheduled_s": record.scheduled_s,
        "sent_s": record.sent_s,
        "first_token_s": first,
        "last_token_s": record.last_token_s,
        "end_s": record.end_s,
        "ttft_s": None if record.error or first is None else first - record.scheduled_s,
        "tpot_s": None if record.error else time_per_output_token(record),
        "e2e_s": None if record.error else record.end_s - record.scheduled_s,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "completion_tokens": record.completion_tokens,
        "spec_steps": spec.num_spec_steps if spec else None,
        "draft_tokens": spec.num_draft_tokens if spec else None,
        "accepted_tokens": spec.num_accepted_draft_tokens if spec else None,
        "finish_reason": record.finish_reason,
        "error": record.error.kind if record.error else None,
        "text_sha256": record.text_sha256,
    }
