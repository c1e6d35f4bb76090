"""Figures of what a server really sent, by the plainest code there is: not the code that is under test."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.load.loopback.server import Truth

Figures = dict[str, list[float]]


def gaps(stamps: Iterable[Sequence[float]]) -> list[float]:
    """Times between successive stamps, within each stream."""
    return [later - earlier for stream in stamps for earlier, later in pairwise(stream)]


def figures(told: Sequence[Truth]) -> Figures:
    """ITL, TPOT, inter-chunk latency, peak and mean rate, as the server knows them."""
    itl: list[float] = []
    events: list[tuple[float, int]] = []
    for one in told:
        arrivals: dict[float, int] = {}
        for moment, tokens in zip(one.sent, one.tokens, strict=True):
            arrivals[moment] = arrivals.get(moment, 0) + tokens
            events.append((moment, tokens))
        for (earlier, _), (later, tokens) in pairwise(arrivals.items()):
            itl += [(later - earlier) / tokens] * tokens
    peak = max(sum(n for moment, n in events if start <= moment < start + 1.0) for start, _ in events)
    span = max(moment for moment, _ in events) - min(one.received for one in told)
    return {
        "itl": itl,
        "tpot": [(one.sent[-1] - one.sent[0]) / (sum(one.tokens) - 1) for one in told],
        "inter_chunk": gaps(one.sent for one in told),
        "peak": [float(peak)],
        "mean": [sum(tokens for _, tokens in events) / span],
    }


def differences(ours: Figures, true: Figures, tolerance: float = 0.01) -> list[str]:
    """What differs by more than `tolerance`: mean, median and 99th percentile of each figure, and its count."""
    found: list[str] = []
    for name, values in ours.items():
        if len(values) != len(true[name]):
            found.append(f"{name}: {len(values)} values against {len(true[name])}")
            continue
        for what, mine, truly in zip(("mean", "p50", "p99"), _three(values), _three(true[name]), strict=True):
            if abs(mine - truly) > tolerance * abs(truly) + 1e-9:
                found.append(f"{name} {what}: {mine:.6g} against {truly:.6g}")
    return found


def _three(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    cuts = quantiles(values, n=100, method="inclusive")
    return mean(values), cuts[49], cuts[98]
