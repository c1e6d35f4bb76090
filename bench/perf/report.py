"""`make perf-report`: what reports, comparisons and the planner cost, on runs of 10,000 and 1,000,000 requests.

Time and memory are those of the whole command with its children. Nothing is written into the checkout; the exit code
is 1 when a goal is missed. The large runs need about 3 GB of disk for as long as they are measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psutil

from specdeck.paths import repo_root
from specdeck.stats.bootstrap import cluster_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = repo_root()
TEMPLATE = "results/measured/tiny-next-cpu-mtp-vs-dflash2-20261201-063454"
ARMS, LEVELS, ROUNDS = ("none", "mtp", "dflash2"), (1, 4), 5
CELLS = len(ARMS) * len(LEVELS) * ROUNDS
TIMEOUT_S = 900


class Cost(NamedTuple):
    """Wall seconds, CPU seconds and peak memory (sum of all processes, in GB) of a command."""

    wall_s: float
    cpu_s: float
    peak_gb: float


class Goal(NamedTuple):
    """A command, and what it may cost. None: no goal is set."""

    what: str
    command: Sequence[str]
    wall_s: float | None = None
    peak_gb: float | None = None


def make_run(folder: Path, records: int, run_id: str, seed: int) -> Path:
    """Write a run of so many requests: the committed run's answers, repeated, with times that scatter.

    Every request of a cell has a prompt of its own, which is the most that statistics can have to do.
    """
    source = ROOT / TEMPLATE
    run = json.loads((source / "run.json").read_text())
    each = max(records // CELLS, 1)
    run |= {"run_id": run_id, "num_prompts": each}
    (folder / run_id).mkdir(parents=True)
    (folder / run_id / "run.json").write_text(json.dumps(run))
    generator = np.random.default_rng(seed)
    for arm in ARMS:
        for level in LEVELS:
            cell = json.loads((source / arm / f"c{level}-r1" / "cell.json").read_text())
            lines = (source / arm / f"c{level}-r1" / "requests.jsonl").read_text().splitlines()
            for number in range(1, ROUNDS + 1):
                made = folder / run_id / arm / f"c{level}-r{number}"
                made.mkdir(parents=True)
                length = 0.0
                with (made / "requests.jsonl").open("w") as file:
                    for line, end in _records([json.loads(line) for line in lines], each, generator):
                        file.write(line)
                        length += end
                cell |= {"cell_id": made.name, "round": number, "num_requests": each, "duration_s": length / level}
                (made / "cell.json").write_text(json.dumps(cell))
    return folder / run_id


def _records(
    templates: list[dict[str, object]], count: int, generator: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Lines, and how long each request takes. A template is encoded once for each of a few factors on its times."""
    variants = []
    for template in templates:
        for factor in generator.lognormal(0, 0.05, 20):
            start = float(template["scheduled_s"])  # type: ignore[arg-type]
            moved = {
                name: (float(value) - start) * factor  # type: ignore[arg-type]
                for name, value in template.items()
                if name.endswith("_s") and name != "chunk_s" and value is not None
            }
            chunks = [round((t - start) * factor, 9) for t in template["chunk_s"]]  # type: ignore[attr-defined]
            fields = template | moved | {"chunk_s": chunks, "index": "@I", "prompt_id": "@P", "request_id": "@R"}
            text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
            variants.append((text.replace('"@I"', "@I"), moved["end_s"]))
    for i in range(count):
        text, end = variants[i * 7919 % len(variants)]
        yield text.replace("@I", str(i)).replace("@P", f"p{i:06d}").replace("@R", f"r-{i}") + "\n", end


def say(line: str) -> None:
    """Print at once: the next line may take minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def cost(command: Sequence[str]) -> Cost:
    """Run a command of specdeck to its end and watch it."""
    began, cpu, peak = time.perf_counter(), 0.0, 0
    with subprocess.Popen(
        [sys.executable, "-m", "specdeck", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [watched, *watched.children(recursive=True)]
                peak = max(peak, sum(member.memory_info().rss for member in family))
            except psutil.Error:
                pass
            if time.perf_counter() - began > TIMEOUT_S:
                process.kill()
            time.sleep(0.02)
        assert process.stderr is not None
        said = process.stderr.read()
    wall = time.perf_counter() - began
    used = psutil.Process().cpu_times()
    cpu = used.children_user + used.children_system
    if process.returncode not in (0, 1, 2) or "Traceback" in said:
        raise RuntimeError(f"specdeck {' '.join(command)} ended with {process.returncode}: {said[-2000:]}")
    return Cost(wall, cpu, peak / 1e9)


def bootstrap_s() -> float:
    """Seconds for 10,000 resamples of 200 prompts with 5 rounds and the interval of a ratio; the best of five."""
    sums = np.random.default_rng(0).lognormal(size=(200, 5, 4)).sum(axis=1)
    spent = []
    for seed in range(5):
        began = time.perf_counter()
        cluster_interval(sums, lambda s: (s[:, 0] / s[:, 1]) / (s[:, 2] / s[:, 3]), seed=seed)
        spent.append(time.perf_counter() - began)
    return min(spent)


def main(arguments: Sequence[str]) -> int:
    """Measure everything and print a table; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="requests of the large run")
    options = parser.parse_args(arguments)
    missed = 0
    seconds = bootstrap_s()
    missed += seconds > 1
    say("| what | wall s | CPU s | peak GB | goal |\n|---|--:|--:|--:|---|")
    say(f"| 10,000 resamples of 200 prompts × 5 rounds | {seconds:.3f} | | | 1 s |")
    with tempfile.TemporaryDirectory(prefix="specdeck-perf-") as name:
        folder = Path(name)
        small = [str(make_run(folder, 10_000, f"small-{i}", i)) for i in (1, 2)]
        large = [str(make_run(folder, options.records, f"large-{i}", i)) for i in (1, 2)]
        recipe = "qwen3.8-27b-nvfp4-unsloth-2x5090-512k"
        goals = (
            Goal("rules check of a recipe", ("rules", "check", recipe)),
            Goal("plan of a recipe", ("plan", "qwen3.8-27b-fp8-2x3090", "--json")),
            Goal("report, 10,000 requests", ("report", small[0]), 3),
            Goal("compare, 10,000 requests a side", ("compare", *small)),
            Goal(f"report, {options.records:,} requests", ("report", large[0]), 20, 1.5),
            Goal(f"compare, {options.records:,} requests a side", ("compare", *large)),
        )
        for goal in goals:
            before = psutil.Process().cpu_times()
            found = cost(goal.command)
            cpu = found.cpu_s - before.children_user - before.children_system
            missed += goal.wall_s is not None and found.wall_s > goal.wall_s
            missed += goal.peak_gb is not None and found.peak_gb > goal.peak_gb
            bounds = [f"{goal.wall_s:g} s"] if goal.wall_s else []
            bounds += [f"{goal.peak_gb:g} GB"] if goal.peak_gb else []
            say(f"| {goal.what} | {found.wall_s:.2f} | {cpu:.2f} | {found.peak_gb:.2f} | {', '.join(bounds)} |")
    if missed:
        say(f"\n{missed} goals are missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
