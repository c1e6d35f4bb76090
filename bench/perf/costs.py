"""Costs that no comparison needs: the command line's start, memory by length of a run, reading counters and GPUs."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clients import run

from specdeck.load.loopback.shape import Shape
from specdeck.run.selftest import self_test
from specdeck.telemetry.exposition import parse

if TYPE_CHECKING:
    from specdeck.load.loopback.process import Loopback

SERIES = 50_000
STREAMS = 64
TOKENS = 1200
SHAPE = Shape(tokens="4", interval_ms=5, spread=True)


def parser() -> dict[str, float]:
    """CPU seconds that 50,000 series take; the best of five, since others' work only ever adds."""
    text = "".join(
        f'vllm:request_latency_{i // 500}_bucket{{engine="{i % 8}",le="{i}.0",model_name="org/model"}} {i * 1.5}\n'
        for i in range(SERIES)
    )
    spent = []
    for _ in range(5):
        began = time.process_time()
        parse(text)
        spent.append(time.process_time() - began)
    return {"cpu_s": min(spent)}


def help_screen() -> dict[str, float]:
    """CPU and wall seconds of `specdeck --help`; the best of five."""
    cpu, wall = [], []
    for _ in range(5):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-m", "specdeck", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall.append(time.perf_counter() - began)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cpu_s": min(cpu), "wall_s": min(wall)}


def bench_command(loopback: Loopback, requests: int, core: int) -> dict[str, float]:
    """`specdeck bench` as a whole, attached to the loopback server: one cell of 64 streams.

    Returns:
        `cpu_start_s` up to the first request of its warm-up; `peak_mib` up to the last answer;
        `peak_with_report_mib` to its end.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts, plan = folder / "prompts.jsonl", folder / "perf.yml"
        prompts.write_text(
            "".join(json.dumps({"id": f"p-{i}", "category": "c", "prompt": "x"}) + "\n" for i in range(requests))
        )
        plan.write_text(
            f"name: perf\ntitle: One cell of {STREAMS} streams\narms: [none]\n"
            f"concurrency: [{STREAMS}]\nrounds: 1\nmax_tokens: {TOKENS}\nseed: 0\nwarmup_requests: 1\n"
        )
        asyncio.run(self_test())  # a first run on a machine tries the client once; this is every later one
        loopback.truths()
        process = run(
            [sys.executable, "-m", "specdeck", "bench", "--base-url", loopback.url(SHAPE), "--plan", str(plan),
             "--prompts", str(prompts), "--results", str(folder / "results"), "--fresh"],
            core=core, folder=folder,
        )  # fmt: skip
        told = loopback.truths().values()
        ended = max(truth.sent[-1] for truth in told)
        return {
            "requests": requests,
            "cpu_start_s": process.cpu_at(min(truth.received for truth in told)),
            "peak_mib": process.peak_at(ended),
            "peak_with_report_mib": process.peak_mib,
        }


def sampler() -> dict[str, float]:
    """Share of a core, in percent, that watching the host during a cell costs, over five idle seconds."""
    from specdeck.telemetry.host import HostSampler  # noqa: PLC0415 - psutil is not needed before

    with HostSampler() as host:
        began, cpu = time.perf_counter(), time.process_time()
        time.sleep(5)
        spent = time.process_time() - cpu
        wall = time.perf_counter() - began
    return {"percent": 100 * spent / wall, "gpus": len(host.use().gpus or ()), "cores": os.cpu_count() or 1}
