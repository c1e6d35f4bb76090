"""The table of `make perf`, and docs/performance.md around it. Every figure comes from the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run import Figures

    Medians = dict[tuple[str, str], Figures]

NAMES = {"ours": "specdeck", "vllm": "vllm bench serve", "plain": "plain aiohttp + uvloop", "floor": "floor reader"}
HEAD = (
    "client", "CPU-s / 10k chunks", "start-up CPU s", "peak MiB", "TTFT error mean (p99) ms", "load ÷ floor's",
    "ITL mean / p50 / p99 ÷ truth", "ITL p99 error ms", "peak tok/s ÷ truth",
)  # fmt: skip


def table(medians: Medians) -> str:
    """The comparison as a Markdown table."""
    floor = medians["fast", "floor"]
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for client in ("vllm", "plain", "ours", "floor"):
        if ("fast", client) not in medians:
            continue
        paced, fast = medians["paced", client], medians["fast", client]
        cells = (
            NAMES[client],
            f"{paced.cpu_s_per_10k:.3f}",
            f"{paced.cpu_start_s:.2f}",
            f"{paced.peak_mib:.0f}",
            f"{fast.ttft_error_mean_ms:+.1f} ({fast.ttft_error_p99_ms:+.1f})",
            f"{fast.chunks_per_s / floor.chunks_per_s:.2f}",
            f"{fast.itl_mean_ratio:.2f} / {fast.itl_p50_ratio:.2f} / {fast.itl_p99_ratio:.2f}",
            f"{fast.itl_p99_error_ms:.1f}",
            "–" if fast.peak_ratio is None else f"{fast.peak_ratio:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(medians: Medians, rows: str, *, date: str, host: str, rounds: int, load_average: float) -> str:
    """The whole of docs/performance.md."""
    wide = medians["wide", "ours"]
    ours, floor, plain = (medians["paced", client] for client in ("ours", "floor", "plain"))
    return f"""# The load generator's own cost and error

Written by `make perf` on {date}.

- Host: {host}. Load average when it began: {load_average:.1f}. Above 0.5 others were using the cores: times and CPU
  are then larger than on a quiet host, for all clients, and only ratios within the table mean something.
- Rounds: {rounds}, medians of them; clients take turns in each, the client on one core and the server on another.

{rows}

- **CPU**: of the client's process from the first request's arrival at the server to the last chunk's departure, 64
  streams of a chunk every 20 ms. specdeck and the floor reader parse answers after that, when nothing is timed.
  specdeck ÷ floor: {ours.cpu_s_per_10k / floor.cpu_s_per_10k:.2f}.
- **Start-up** is CPU up to the first request, **peak MiB** the largest resident memory, in the same load. The row
  "specdeck" is the load generator; the command line around it is not in it.
- **Errors, load, ITL, peak**: 256 streams of a chunk every 10 ms, 1 to 8 tokens a chunk. The truth is what the server
  noted when it handed each chunk to the kernel. TTFT error is reported minus true, over requests; specdeck's and the
  floor's count from the scheduled moment, that of `vllm bench serve` from when it sends.
- The **floor reader** (bench/perf/floor.py) is blocking epoll without JSON: what reading costs at least.
- **2,048 streams on one core**: {wide.failed:.0f} requests failed, {wide.incomplete:.0f} answers were cut off, CPU
  {wide.cpu_s_per_10k:.3f} s per 10,000 chunks, TTFT error mean {wide.ttft_error_mean_ms:.1f} ms, p99
  {wide.ttft_error_p99_ms:.1f} ms.

## How it reads streams

The client stands on asyncio's transports (uvloop): `data_received` takes a stamp and keeps the bytes, and looks no
further than whether they could be the end. HTTP framing, events and JSON are read after the load. The first form used
aiohttp and stamped in the task that reads, as "plain aiohttp + uvloop" (bench/perf/plain.py) does: a task is woken
after every other callback that is due, so that its stamps are late by the work of all other streams. It took
{plain.cpu_s_per_10k / ours.cpu_s_per_10k:.1f} times the CPU a chunk in this run.

Requests are encoded before the clock starts and written to the socket directly, since uvloop queues writes to the end
of its iteration. Connections are opened before the clock starts. The garbage collector is off while anything is timed.
"""
