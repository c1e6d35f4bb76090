"""What one client did in one load, against what the server knows."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from clients import Load, Process, Told, account, command, run

from specdeck.load.loopback.shape import Shape
from specdeck.results.schema import RequestRecord
from specdeck.stats.tokens import all_token_gaps, peak_tokens_per_s

if TYPE_CHECKING:
    from specdeck.load.loopback.process import Loopback
    from specdeck.load.loopback.server import Truth

ROOT = Path(__file__).resolve().parents[2]
MIXED = "1-8-3-5-2-7-4-6"
LOADS = {
    "paced": Load(Shape(tokens="4", interval_ms=20, spread=True), streams=64, requests=128, tokens=1200),
    "fast": Load(Shape(tokens=MIXED, interval_ms=10, spread=True), streams=256, requests=512, tokens=900),
    "unpaced": Load(Shape(tokens="4", ttft_ms=0, interval_ms=0), streams=64, requests=256, tokens=1200),
    "wide": Load(Shape(tokens="4", interval_ms=200, spread=True), streams=2048, requests=2048, tokens=120),
}


@dataclass(frozen=True)
class Figures:
    """What one client did in one load. Times in milliseconds; ratios are reported ÷ true; None: not applicable."""

    cpu_s_per_10k: float
    cpu_start_s: float
    peak_mib: float
    chunks_per_s: float
    ttft_error_mean_ms: float
    ttft_error_p99_ms: float
    itl_mean_ratio: float
    itl_p50_ratio: float
    itl_p99_ratio: float
    itl_p99_error_ms: float
    peak_ratio: float | None
    failed: int
    incomplete: int
    loop_lag_p99_ms: float | None


def measure(client: str, loopback: Loopback, load: Load, core: int) -> Figures:
    """Run a client on one core.

    Raises:
        RuntimeError: it failed or took more than ten minutes.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loopback.truths()
        process = run(command(client, loopback, load, folder, ROOT), core=core, folder=folder)
        told = loopback.truths()
        tokens = {request: truth.tokens for request, truth in told.items()}
        return _figures(process, account(client, process, folder, tokens), told)


def _figures(process: Process, client: Told, told: dict[str, Truth]) -> Figures:
    begun = min(truth.received for truth in told.values())
    ended = max(truth.sent[-1] for truth in told.values())
    chunks = sum(len(truth.sent) for truth in told.values())
    records = [
        RequestRecord(request_id=name, index=0, prompt_id="", category="", scheduled_s=truth.received,
                      end_s=truth.sent[-1], chunk_s=truth.sent, chunk_tokens=truth.tokens)
        for name, truth in told.items()
    ]  # fmt: skip
    late = [1000 * (ttft - (told[name].sent[0] - told[name].received)) for name, ttft in client.ttft_s.items()]
    true_itl, itl = all_token_gaps(records), np.asarray(client.itl_s)
    true_p50, true_p99 = np.percentile(true_itl, [50, 99])
    p50, p99 = np.percentile(itl, [50, 99])
    true_peak = peak_tokens_per_s(records)
    return Figures(
        cpu_s_per_10k=(process.cpu_at(ended) - process.cpu_at(begun)) / chunks * 10_000,
        cpu_start_s=process.cpu_at(begun),
        peak_mib=process.peak_mib,
        chunks_per_s=chunks / (ended - begun),
        ttft_error_mean_ms=statistics.mean(late),
        ttft_error_p99_ms=float(np.percentile(late, 99)),
        itl_mean_ratio=float(itl.mean() / true_itl.mean()),
        itl_p50_ratio=float(p50 / true_p50) if true_p50 else 1.0,
        itl_p99_ratio=float(p99 / true_p99) if true_p99 else 1.0,
        itl_p99_error_ms=float(abs(p99 - true_p99) * 1000),
        peak_ratio=client.peak_tok_s / true_peak if client.peak_tok_s and true_peak else None,
        failed=client.failed,
        incomplete=sum(not truth.complete for truth in told.values()),
        loop_lag_p99_ms=client.loop_lag_p99_ms,
    )
