"""The clients that are compared, each as a process, and what each says about the same load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.results.schema import RequestRecord
from specdeck.stats.tokens import all_token_gaps, peak_tokens_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.load.loopback.process import Loopback
    from specdeck.load.loopback.shape import Shape

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Load:
    """A closed loop: `requests` in all, `streams` at a time, `tokens` each."""

    shape: Shape
    streams: int
    requests: int
    tokens: int


@dataclass(frozen=True)
class Process:
    """What a process used. `used`: (moment on the monotonic clock, CPU seconds, peak MiB so far), every 50 ms."""

    used: tuple[tuple[float, float, float], ...]
    output: str

    def cpu_at(self, moment: float) -> float:
        """CPU seconds used up to a moment."""
        moments, cpu, _ = zip(*self.used, strict=True)
        return float(np.interp(moment, moments, cpu))

    def peak_at(self, moment: float) -> float:
        """Largest resident memory up to a moment, MiB."""
        return max((peak for when, _, peak in self.used if when <= moment), default=0.0)

    @property
    def peak_mib(self) -> float:
        """Largest resident memory to the end, MiB."""
        return max(peak for _, _, peak in self.used)


@dataclass(frozen=True)
class Told:
    """A client's own account. TTFT by request id in seconds; ITL as it defines it, in seconds."""

    ttft_s: dict[str, float]
    itl_s: Sequence[float]
    peak_tok_s: float | None
    failed: int
    loop_lag_p99_ms: float | None = None


def run(command: Sequence[str], *, core: int | None, folder: Path) -> Process:
    """Run a client to its end, on one core, and watch what it uses.

    Raises:
        RuntimeError: it failed or took more than ten minutes.
    """
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        began, used = time.perf_counter(), []
        while process.poll() is None:
            used.append((time.perf_counter(), _cpu_s(process.pid), _peak_mib(process.pid)))
            if time.perf_counter() - began > TIMEOUT_S:
                process.kill()
            time.sleep(0.05)
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {errors[-2000:]}")
    return Process(tuple(used), output)


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _peak_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = status.partition("VmHWM:")[2].split()
    return int(found[0]) / 1024 if found else 0.0


def command(client: str, loopback: Loopback, load: Load, folder: Path, root: Path) -> list[str]:
    """The command line of a client for a load."""
    numbers = [str(load.streams), str(load.requests), str(load.tokens)]
    if client != "vllm":
        return [sys.executable, str(HERE / f"{client}.py"), loopback.url(load.shape), *numbers]
    return [
        str(root / ".venv-engine/bin/python"), str(HERE / "vllm_cli.py"), "bench", "serve", "--backend", "openai-chat",
        "--base-url", f"http://127.0.0.1:{loopback.port}", "--endpoint", f"/{load.shape.path}/v1/chat/completions",
        "--model", "loopback", "--tokenizer", str(root / "models/tiny-next/target"), "--dataset-name", "random",
        "--random-input-len", "4", "--random-output-len", numbers[2], "--num-prompts", numbers[1],
        "--max-concurrency", numbers[0], "--save-result", "--save-detailed", "--result-dir", str(folder),
        "--result-filename", "vllm.json", "--ready-check-timeout-sec", "0", "--disable-tqdm",
        "--request-id-prefix", "v-",
    ]  # fmt: skip


def account(client: str, process: Process, folder: Path, tokens: dict[str, tuple[int, ...]]) -> Told:
    """What a client reports; `tokens` a chunk are the server's, for the floor, which reads none."""
    if client == "vllm":
        found: dict[str, Any] = json.loads((folder / "vllm.json").read_text())
        return Told(
            {f"v-{i}": ttft for i, ttft in enumerate(found["ttfts"])},
            [gap for gaps in found["itls"] for gap in gaps],
            found["max_output_tokens_per_s"],
            found["failed"],
        )
    told = json.loads(process.output)
    requests = told["requests"] if client == "ours" else {k: [*v, tokens[k]] for k, v in told.items()}
    records = [
        RequestRecord(request_id=name, index=0, prompt_id="", category="", scheduled_s=begun, end_s=stamps[-1],
                      chunk_s=tuple(stamps), chunk_tokens=tuple(counts))
        for name, (begun, stamps, counts) in requests.items()
    ]  # fmt: skip
    return Told(
        {r.request_id: r.chunk_s[0] - r.scheduled_s for r in records},
        all_token_gaps(records).tolist(),
        peak_tokens_per_s(records),
        told["failed"] if client == "ours" else 0,
        told["loop_lag_p99_ms"] if client == "ours" else None,
    )
