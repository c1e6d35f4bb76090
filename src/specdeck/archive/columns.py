"""The table `cells`: its columns, and a stored run as rows of it.

Durations are seconds, rates are per second, shares are 0 to 1; what is not available is null. Latencies are over
answered requests; percentiles interpolate linearly. `acceptance_kind` says whose acceptance was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.stats.acceptance import acceptance_length
from specdeck.stats.observations import quotient, total
from specdeck.stats.throughput import request_tok_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.results.schema import Cell, RequestRecord, Run
    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.columns import CellColumns

PARTITION = ("recipe", "arm")
"""Columns that are folders: they are not in the files."""
COLUMNS: dict[str, str] = {
    "run_id": "string", "cell_id": "string", "created_at": "string", "started_at": "string",
    "plan": "string", "device": "string", "acceptance_kind": "string", "fingerprint": "string",
    "recipe_sha256": "string", "plan_sha256": "string", "prompts_sha256": "string", "git_commit": "string",
    "git_dirty": "bool", "specdeck_version": "string", "vllm_version": "string", "engine_kv_cache_tokens": "int64",
    "gpu": "string", "num_gpus": "int64", "driver": "string", "host_cpu": "string",
    "method": "string", "num_speculative_tokens": "int64", "max_concurrency": "int64", "round": "int64",
    "order": "int64", "request_rate": "double", "burstiness": "double", "cache_policy": "string",
    "temperature": "double", "max_tokens": "int64", "valid": "bool", "findings": "list<string>",
    "duration_s": "double", "num_requests": "int64", "num_failed": "int64", "output_tokens": "int64",
    "output_tok_s": "double", "request_tok_s": "double", "peak_tok_s": "double", "mean_ttft_s": "double",
    "p50_ttft_s": "double", "p99_ttft_s": "double", "mean_tpot_s": "double", "p50_tpot_s": "double",
    "p99_tpot_s": "double", "p50_itl_s": "double", "p99_itl_s": "double", "p50_e2el_s": "double",
    "p99_e2el_s": "double", "drafts": "int64", "draft_tokens": "int64", "accepted_tokens": "int64",
    "accepted_per_pos": "list<int64>", "acceptance_length": "double", "draft_acceptance_rate": "double",
    "prompt_tokens": "int64", "generation_tokens": "int64", "prefix_cache_queries": "int64",
    "prefix_cache_hits": "int64", "preemptions": "int64", "client_lag_p99_ms": "double", "mean_in_flight": "double",
    "host_cpu_percent": "double", "gpu_power_w": "double", "energy_per_token_j": "double",
}  # fmt: skip
"""Name and Arrow type of each column beside the partition's. Counter columns are the server's own deltas."""

Row = dict[str, Any]


def row(run: Run, cell: Cell, requests: CellColumns | None) -> Row:
    """Return a cell as a row, partition columns included.

    Args:
        run: the run the cell belongs to.
        cell: the cell.
        requests: its requests; None where they could not be read or the cell is invalid: their figures are null.
    """
    return _origin(run, cell) | _load(cell) | _counted(cell) | _measured(cell, requests)


def _origin(run: Run, cell: Cell) -> Row:
    arm = run.arms.get(cell.arm)
    ready = arm.readiness if arm else {}
    host = run.provenance.get("host") or {}
    gpus: Sequence[dict[str, Any]] = host.get("gpus") or ()
    git = run.provenance.get("git") or {}
    return {
        "recipe": run.recipe_name,
        "arm": cell.arm,
        "run_id": run.run_id,
        "cell_id": cell.cell_id,
        "created_at": run.created_at,
        "started_at": cell.started_at,
        "plan": run.plan_name,
        "device": run.device,
        "acceptance_kind": run.acceptance_kind,
        "fingerprint": run.fingerprint,
        "recipe_sha256": run.recipe_sha256,
        "plan_sha256": run.plan_sha256,
        "prompts_sha256": run.prompts_sha256,
        "git_commit": git.get("commit"),
        "git_dirty": git.get("dirty"),
        "specdeck_version": run.provenance.get("specdeck"),
        "vllm_version": ready.get("vllm_version"),
        "engine_kv_cache_tokens": ready.get("kv_cache_tokens"),
        "gpu": " + ".join(sorted({str(gpu.get("name")) for gpu in gpus})) or None,
        "num_gpus": len(gpus) if host.get("gpus") is not None else None,
        "driver": next((gpu.get("driver") for gpu in gpus), None),
        "host_cpu": host.get("cpu"),
        "method": arm.method if arm else None,
        "num_speculative_tokens": arm.num_speculative_tokens if arm else None,
    }


def _load(cell: Cell) -> Row:
    power = [gpu.get("power_w") for gpu in cell.host.gpus or ()]
    watts = [value for value in power if value is not None]
    return {
        "max_concurrency": cell.concurrency,
        "round": cell.round,
        "order": cell.order,
        "request_rate": cell.request_rate,
        "burstiness": cell.burstiness,
        "cache_policy": cell.cache_policy,
        "temperature": cell.sampling.temperature,
        "max_tokens": cell.sampling.max_tokens,
        "valid": cell.status == "ok",
        "findings": [finding.code for finding in cell.findings],
        "duration_s": cell.duration_s,
        "num_requests": cell.num_requests,
        "num_failed": cell.num_failed,
        "client_lag_p99_ms": cell.client.loop_lag_p99_ms,
        "mean_in_flight": cell.client.mean_in_flight,
        "host_cpu_percent": cell.host.cpu_percent,
        "gpu_power_w": sum(watts) if power and len(watts) == len(power) else None,
        "energy_per_token_j": cell.energy_per_token_j,
    }


def _counted(cell: Cell) -> Row:
    seen = cell.counters
    return {
        "drafts": seen.drafts,
        "draft_tokens": seen.draft_tokens,
        "accepted_tokens": seen.accepted_tokens,
        "accepted_per_pos": None if seen.accepted_per_pos is None else list(seen.accepted_per_pos),
        "acceptance_length": acceptance_length(seen.accepted_tokens, seen.drafts),
        "draft_acceptance_rate": quotient(seen.accepted_tokens, seen.draft_tokens),
        "prompt_tokens": seen.prompt_tokens,
        "generation_tokens": seen.generation_tokens,
        "prefix_cache_queries": seen.prefix_cache_queries,
        "prefix_cache_hits": seen.prefix_cache_hits,
        "preemptions": seen.preemptions,
    }


def _measured(cell: Cell, requests: CellColumns | None) -> Row:
    if requests is None:
        return {}
    seen = requests.seen
    tokens = total(seen.tokens)
    return {
        "output_tokens": None if tokens is None else int(tokens),
        "output_tok_s": quotient(tokens, cell.duration_s),
        "request_tok_s": request_tok_s(seen),
        "peak_tok_s": requests.peak_tok_s,
        "mean_ttft_s": _mean(seen.ttft_s),
        **_percentiles("ttft_s", seen.ttft_s),
        "mean_tpot_s": _mean(seen.tpot_s),
        **_percentiles("tpot_s", seen.tpot_s),
        **_percentiles("itl_s", requests.itl_s),
        **_percentiles("e2el_s", seen.e2e_s),
    }


def _mean(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _percentiles(name: str, values: FloatArray | None) -> Row:
    known = np.empty(0) if values is None else values[~np.isnan(values)]
    found = np.percentile(known, [50, 99]).tolist() if len(known) else (None, None)
    return {f"p50_{name}": found[0], f"p99_{name}": found[1]}


def rows_of(run: Run, cells: Sequence[tuple[Cell, Sequence[RequestRecord]]]) -> list[Row]:
    """Return the rows of a run's cells, given with their requests as `report.load.load_requests` returns them."""
    from specdeck.stats.columns import Requests  # noqa: PLC0415 - a cycle of types only

    return [
        row(run, cell, Requests.of(cell, requests).columns if cell.status == "ok" else None) for cell, requests in cells
    ]
