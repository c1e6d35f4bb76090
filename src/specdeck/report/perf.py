"""The tables of docs/performance.md, made from what `make perf` measured. Nothing in them is written by hand."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RESULTS = "bench/perf/results.json"
NAMES = {"vllm": "vllm bench serve", "plain": "plain aiohttp + uvloop", "ours": "specdeck", "floor": "floor reader"}
HEAD = (
    "client", "CPU-s / 10k chunks", "chunks/s unpaced", "start-up CPU s", "peak MB", "TTFT error mean (p99) ms",
    "load ÷ floor's", "ITL mean / p50 / p99 ÷ truth", "ITL p99 error ms", "peak tok/s ÷ truth",
)  # fmt: skip
MB_PER_MIB = 2**20 / 1e6
QUIET_LOAD_AVERAGE = 0.5
NOT_MEASURED = "Not measured yet on an idle machine: `make perf`."


class Measured:
    """One run of `make perf`. Figures of a client in a load are medians over its rounds."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.about = document
        self._found: dict[str, dict[str, Any]] = document["measured"]

    def has(self, client: str) -> bool:
        """Whether the client was measured."""
        return f"paced {client} 1" in self._found

    def client(self, load: str, client: str, figure: str) -> float | None:
        """Median over rounds of a client's figure; None where it has none."""
        values = [
            found[figure]
            for name, found in self._found.items()
            if name.startswith(f"{load} {client} ") and found[figure] is not None
        ]
        return float(statistics.median(values)) if values else None

    def get(self, load: str, client: str, figure: str) -> float:
        """As `client`, for a figure that every client has."""
        value = self.client(load, client, figure)
        if value is None:
            raise KeyError(f"{load} {client} {figure}")
        return value

    def cost(self, name: str, figure: str) -> float:
        """A figure that no client is compared by."""
        return float(self._found[name][figure])

    @property
    def bench(self) -> tuple[str, str]:
        """Names of the short and the long run of `specdeck bench`."""
        short, long = self.about["lengths"]
        return f"bench {short}", f"bench {long}"


def read(root: Path) -> Measured | None:
    """Read the committed run; None where there is none.

    Raises:
        SpecdeckError: it cannot be read, or it is no such file.
    """
    path = root / RESULTS
    if not path.exists():
        return None
    try:
        found = Measured(json.loads(path.read_text(encoding="utf-8")))
        _ = found.bench, found.about["date"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecdeckError(f"the measurements cannot be read: {error}", where=RESULTS, fix="make perf") from error
    return found


def machine(root: Path, _argument: str) -> str:
    """Where and when it was measured, and whether others were using the machine."""
    measured = read(root)
    if measured is None:
        return NOT_MEASURED
    about = measured.about
    vllm = f", vLLM {about['vllm']}" if about["vllm"] else ""
    busy = about["load_average"] > QUIET_LOAD_AVERAGE
    return (
        f"Measured on {about['date']}: {about['cpu']}, {about['cores']} cores, {about['system']}, Python "
        f"{about['python']}{vllm}; medians of {about['rounds']} rounds. Load average when it began: "
        f"{about['load_average']:.2f}"
        + (
            ": **others were using the cores**, so times and CPU are larger than on a quiet machine, for all clients."
            if busy
            else "."
        )
    )


def client_table(root: Path, _argument: str) -> str:
    """The clients side by side."""
    measured = read(root)
    if measured is None:
        return NOT_MEASURED
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for client, name in NAMES.items():
        if not measured.has(client):
            continue

        def get(load: str, figure: str, client: str = client) -> float:
            return measured.get(load, client, figure)

        peak = measured.client("fast", client, "peak_ratio")
        cells = (
            name,
            f"{get('paced', 'cpu_s_per_10k'):.3f}",
            f"{get('unpaced', 'chunks_per_s') / 1000:.0f}k",
            f"{get('paced', 'cpu_start_s'):.2f}",
            f"{get('paced', 'peak_mib') * MB_PER_MIB:.0f}",
            f"{get('fast', 'ttft_error_mean_ms'):+.1f} ({get('fast', 'ttft_error_p99_ms'):+.1f})",
            f"{get('fast', 'chunks_per_s') / measured.get('fast', 'floor', 'chunks_per_s'):.2f}",
            " / ".join(f"{get('fast', f'itl_{what}_ratio'):.2f}" for what in ("mean", "p50", "p99")),
            f"{get('fast', 'itl_p99_error_ms'):.2f}",
            "–" if peak is None else f"{peak:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


class Goal(NamedTuple):
    """A goal: what, its bound as told, the figure, whether a figure meets it, and how it is written."""

    what: str
    bound: str
    value: float
    met: bool
    shown: str


def goals(measured: Measured) -> list[Goal]:
    """Every goal with its figure."""
    found: list[Goal] = []

    def goal(what: str, bound: float, value: float, form: str, *, least: bool = False, unit: str = "") -> None:
        met = value >= bound if least else value <= bound
        found.append(Goal(what, f"{'≥' if least else '≤'} {bound:g}{unit}", value, met, f"{value:{form}}{unit}"))

    get: Callable[[str, str, str], float] = measured.get
    ours, floor = get("paced", "ours", "cpu_s_per_10k"), get("paced", "floor", "cpu_s_per_10k")
    goal("CPU per 10,000 chunks, 64 streams of 20 ms", 0.15, ours, ".3f", unit=" s")
    if measured.has("vllm"):
        goal("the same ÷ `vllm bench serve`", 0.5, ours / get("paced", "vllm", "cpu_s_per_10k"), ".2f")
    goal("the same ÷ floor reader", 1.3, ours / floor, ".2f")
    goal("TTFT error, mean, 256 streams of 10 ms", 3, get("fast", "ours", "ttft_error_mean_ms"), ".1f", unit=" ms")
    goal("TTFT error, p99", 10, get("fast", "ours", "ttft_error_p99_ms"), ".1f", unit=" ms")
    goal("ITL p99 error", 1, get("fast", "ours", "itl_p99_error_ms"), ".2f", unit=" ms")
    load = get("fast", "ours", "chunks_per_s") / get("fast", "floor", "chunks_per_s")
    goal("delivered load ÷ floor reader", 0.98, load, ".3f", least=True)
    off = [get("fast", "ours", f"itl_{what}_ratio") for what in ("mean", "p50", "p99")]
    off.append(get("fast", "ours", "peak_ratio"))
    worst = 100 * max(abs(ratio - 1) for ratio in off)
    goal("ITL mean, p50, p99 and peak tok/s: furthest from the truth", 1, worst, ".2f", unit=" %")
    lost = get("wide", "ours", "failed") + get("wide", "ours", "incomplete")
    goal("2,048 streams on one core: streams lost", 0, lost, ".0f")
    short, long = measured.bench
    goal("`specdeck bench` up to its first request, CPU", 0.4, measured.cost(short, "cpu_start_s"), ".2f", unit=" s")
    peak, longer = (measured.cost(name, "peak_mib") * MB_PER_MIB for name in (short, long))
    goal("`specdeck bench` at 64 streams, peak memory", 80, peak, ".0f", unit=" MB")
    ratio = measured.cost(long, "requests") / measured.cost(short, "requests")
    goal(f"the same run {ratio:.0f} times as long, more memory", 5, longer - peak, ".0f", unit=" MB")
    goal("`specdeck --help`, wall time", 0.3, measured.cost("help", "wall_s"), ".2f", unit=" s")
    goal("50,000 series of /metrics parsed, CPU", 0.3, measured.cost("parser", "cpu_s"), ".2f", unit=" s")
    goal("watching the host during a cell, of one core", 0.5, measured.cost("sampler", "percent"), ".2f", unit=" %")
    return found


def goal_table(root: Path, _argument: str) -> str:
    """Goals, figures, and whether they are met."""
    measured = read(root)
    if measured is None:
        return NOT_MEASURED
    lines = ["| goal | bound | measured | met |", "|---|---|---|---|"]
    lines += [f"| {g.what} | {g.bound} | {g.shown} | {'yes' if g.met else '**no**'} |" for g in goals(measured)]
    return "\n".join(lines)


def wide(root: Path, _argument: str) -> str:
    """The figures of 2,048 streams on one core."""
    measured = read(root)
    if measured is None:
        return NOT_MEASURED
    get = measured.get
    lag = get("wide", "ours", "loop_lag_p99_ms")
    return (
        f"2,048 streams of a chunk every 200 ms on one core: {get('wide', 'ours', 'failed'):.0f} requests failed, "
        f"{get('wide', 'ours', 'incomplete'):.0f} answers were cut off, {get('wide', 'ours', 'cpu_s_per_10k'):.3f} "
        f"CPU-s per 10,000 chunks, TTFT error mean {get('wide', 'ours', 'ttft_error_mean_ms'):.1f} ms, p99 "
        f"{get('wide', 'ours', 'ttft_error_p99_ms'):.1f} ms; the client itself says its event loop was up to "
        f"{lag:.1f} ms late (p99)."
    )
