"""`make perf-storage`: what an archive of 10⁴, 10⁵ and 10⁶ cells costs to fill, to merge and to ask.

Cells are synthetic: recipe and arm names of this checkout, figures drawn at random, 27 cells a run, added as a sweep
adds them. Writes bench/perf/storage.json, from which docs/scale.md is made. One process; DuckDB uses every core.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.archive.ask import ask
from specdeck.archive.store import Archive, read_index
from specdeck.paths import repo_root
from specdeck.results.atomic import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = repo_root()
ARMS, LEVELS, ROUNDS = ("none", "mtp", "dflash2"), (1, 4, 16), 3
CELLS_A_RUN = len(ARMS) * len(LEVELS) * ROUNDS
BATCH_RUNS = 74
"""Runs that are added together: a sweep over every recipe."""
QUERIES = {
    "one_recipe": """
        SELECT arm, max_concurrency, avg(output_tok_s) FROM cells WHERE recipe = '{recipe}' AND valid GROUP BY ALL""",
    "every_recipe": """
        SELECT recipe, arm, max_concurrency, median(output_tok_s), avg(acceptance_length)
        FROM cells WHERE valid GROUP BY ALL""",
    "newest_against_before": """
        WITH run AS (
          SELECT recipe, arm, max_concurrency, created_at, avg(output_tok_s) AS now
          FROM cells WHERE valid GROUP BY ALL),
        pair AS (
          SELECT *, lag(now) OVER history AS before,
            row_number() OVER (PARTITION BY recipe, arm, max_concurrency ORDER BY created_at DESC) AS age
          FROM run WINDOW history AS (PARTITION BY recipe, arm, max_concurrency ORDER BY created_at))
        SELECT recipe, arm, max_concurrency, now / before FROM pair WHERE age = 1 AND now < 0.95 * before""",
}


def sweeps(cells: int, recipes: list[str], generator: np.random.Generator) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of rows, `cells` in all."""
    made, run = 0, 0
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    while made < cells:
        rows: list[dict[str, Any]] = []
        for _ in range(BATCH_RUNS):
            recipe = recipes[run % len(recipes)]
            at = start + dt.timedelta(minutes=run)
            rows += _run_rows(f"{recipe}-{at:%Y%m%d-%H%M%S}", recipe, at.isoformat(), generator)
            run += 1
        rows = rows[: cells - made]
        made += len(rows)
        yield rows


def _run_rows(run_id: str, recipe: str, at: str, generator: np.random.Generator) -> list[dict[str, Any]]:
    noise = generator.lognormal(0, 0.05, (CELLS_A_RUN, 12))
    counts = generator.integers(1_000, 100_000, (CELLS_A_RUN, 8))
    places = [(arm, level, number) for number in range(1, ROUNDS + 1) for level in LEVELS for arm in ARMS]
    rows = []
    for order, (arm, level, number) in enumerate(places):
        drafts = int(counts[order, 0])
        at_position = sorted((int(v) % drafts for v in counts[order, 1:]), reverse=True)
        drafting = arm != "none"
        rows.append(
            {
                "recipe": recipe, "arm": arm, "run_id": run_id, "cell_id": f"c{level}-r{number}", "created_at": at,
                "started_at": at, "plan": "sweep", "device": "cuda", "acceptance_kind": "measured",
                "fingerprint": run_id[-40:], "vllm_version": "0.33.0", "gpu": "synthetic", "num_gpus": 2,
                "max_concurrency": level, "round": number, "order": order, "valid": bool(noise[order, 11] < 1.12),
                "findings": [], "duration_s": 60 * noise[order, 0], "num_requests": 120, "num_failed": 0,
                "output_tokens": 120 * 256, "output_tok_s": 100 * level * noise[order, 1],
                "mean_ttft_s": 0.2 * noise[order, 2], "p50_ttft_s": 0.2 * noise[order, 3],
                "p99_ttft_s": 0.9 * noise[order, 4], "mean_tpot_s": 0.01 * noise[order, 5],
                "p50_tpot_s": 0.01 * noise[order, 6], "p99_tpot_s": 0.03 * noise[order, 7],
                "drafts": drafts if drafting else None,
                "accepted_tokens": sum(at_position) if drafting else None,
                "accepted_per_pos": at_position if drafting else None,
                "acceptance_length": 1 + sum(at_position) / drafts if drafting else None,
                "energy_per_token_j": noise[order, 8],
            }
        )  # fmt: skip
    return rows


def measure(cells: int, folder: Path, repeats: int) -> dict[str, Any]:
    """Fill an archive of so many cells, ask it, merge it, ask it again. Seconds, bytes and counts."""
    recipes = sorted(path.stem for path in (ROOT / "recipes").glob("*.yml"))
    generator = np.random.default_rng(0)
    write_s = slowest = 0.0
    with Archive(folder) as archive:
        for rows in sweeps(cells, recipes, generator):
            began = time.perf_counter()
            archive.add(rows)
            took = time.perf_counter() - began
            write_s, slowest = write_s + took, max(slowest, took)
        files = len(archive.index.files)
        before = _asked(folder, recipes[0], repeats)
        began = time.perf_counter()
        archive.merge()
        merge_s = time.perf_counter() - began
    stored = [folder / file.path for file in read_index(folder).files]
    return {
        "cells": cells,
        "write_s": write_s,
        "slowest_add_s": slowest,
        "cells_an_add": BATCH_RUNS * CELLS_A_RUN,
        "files_before_merge": files,
        "merge_s": merge_s,
        "files": len(stored),
        "bytes": sum(path.stat().st_size for path in stored),
        "query_s_before_merge": before,
        "query_s": _asked(folder, recipes[0], repeats),
    }


def _asked(folder: Path, recipe: str, repeats: int) -> dict[str, float]:
    found = {}
    for name, sql in QUERIES.items():
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            ask(folder, sql.format(recipe=recipe), limit=100_000)
            times.append(time.perf_counter() - began)
        found[name] = statistics.median(times)
    return found


def main() -> int:
    """Measure each size in a process of its own, so that each peak of memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "bench/perf/storage.json")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        folder = Path(tempfile.mkdtemp(prefix="specdeck-archive-"))
        try:
            found = measure(given.one, folder, given.repeats)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    results = []
    for size in (int(part) for part in given.sizes.split(",")):
        command = [sys.executable, __file__, "--one", str(size), "--repeats", str(given.repeats)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600)
        results.append(json.loads(done.stdout))
        sys.stdout.write(done.stdout)
        sys.stdout.flush()
    versions = {name: __import__(name).__version__ for name in ("duckdb", "pyarrow")}
    report = {
        "command": "make perf-storage",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version(), **versions},
        "results": results,
    }
    replace_file(given.output, json.dumps(report, indent=1).encode() + b"\n")
    return 0


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
