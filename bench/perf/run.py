"""`make perf`: specdeck's client and three others against one server that knows the truth.

Prints the table and writes docs/performance.md. Figures are medians of rounds; clients take turns within a round.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from clients import Load, Process, Told, account, command, run
from page import page, table

from specdeck.load.loopback.process import Loopback, running_loopback
from specdeck.load.loopback.shape import Shape
from specdeck.results.schema import RequestRecord
from specdeck.stats.tokens import all_token_gaps, peak_tokens_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.load.loopback.server import Truth

ROOT = Path(__file__).resolve().parents[2]
MIXED = "1-8-3-5-2-7-4-6"
PACED = Load(Shape(tokens="4", interval_ms=20, spread=True), streams=64, requests=128, tokens=1200)
FAST = Load(Shape(tokens=MIXED, interval_ms=10, spread=True), streams=256, requests=512, tokens=900)
WIDE = Load(Shape(tokens="4", interval_ms=200, spread=True), streams=2048, requests=2048, tokens=120)


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


def main(arguments: Sequence[str]) -> int:
    """Run all rounds, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args(arguments)
    clients = ["floor", "ours", "plain"]
    if (ROOT / ".venv-engine/bin/python").exists() and (ROOT / "models/tiny-next/target/tokenizer.json").exists():
        clients.append("vllm")
    else:
        _say("no engine environment: vllm bench serve is left out (make bench sets it up)")
    found: dict[tuple[str, str], list[Figures]] = {}
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    began, load_before = dt.datetime.now(dt.UTC), os.getloadavg()[0]
    with running_loopback(core=cores[0]) as loopback:
        for number in range(options.rounds):
            for name, load in (("paced", PACED), ("fast", FAST)):
                for client in clients:
                    _say(f"round {number + 1} of {options.rounds}: {name}, {client}")
                    found.setdefault((name, client), []).append(_measure(client, loopback, load, cores[-1]))
        _say("2,048 streams: ours")
        found["wide", "ours"] = [_measure("ours", loopback, WIDE, cores[-1])]
    medians = {key: _median(figures) for key, figures in found.items()}
    rows = table(medians)
    sys.stdout.write(rows + "\n")
    host = f"{_cpu_name()}, {len(cores)} cores, Linux {platform.release()}, Python {platform.python_version()}"
    options.write.write_text(
        page(medians, rows, date=f"{began:%Y-%m-%d}", host=host, rounds=options.rounds, load_average=load_before)
    )
    _say(f"wrote {options.write}")
    return 0


def _measure(client: str, loopback: Loopback, load: Load, core: int) -> Figures:
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
        itl_p50_ratio=float(p50 / true_p50),
        itl_p99_ratio=float(p99 / true_p99),
        itl_p99_error_ms=float(abs(p99 - true_p99) * 1000),
        peak_ratio=client.peak_tok_s / true_peak if client.peak_tok_s and true_peak else None,
        failed=client.failed,
        incomplete=sum(not truth.complete for truth in told.values()),
    )


def _median(figures: Sequence[Figures]) -> Figures:
    def middle(name: str) -> float | None:
        values = [value for one in figures if (value := getattr(one, name)) is not None]
        return statistics.median(values) if values else None

    return Figures(**{name: middle(name) for name in Figures.__dataclass_fields__})  # type: ignore[arg-type]


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
