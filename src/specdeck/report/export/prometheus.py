"""A summary as a Prometheus textfile, for node_exporter's textfile collector: the last run on a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.stats.model import Estimate, Quantiles, Summary

    Sample = tuple[dict[str, str], float | None]


def render(summary: Summary) -> str:
    """Gauges by run, recipe, plan, arm and concurrency. What is not available has no sample."""
    run = {"run": summary.run_id, "recipe": summary.recipe, "plan": summary.plan, "device": summary.device}
    rows = [({**run, "arm": row.arm, "concurrency": str(row.concurrency)}, row) for row in summary.rows]
    families: list[tuple[str, str, Iterable[Sample]]] = [
        (
            "specdeck_output_tokens_per_second",
            "Output tokens a second, pooled over rounds.",
            [sample for labels, row in rows for sample in _bounded(labels, row.output_tok_s)],
        ),
        (
            "specdeck_throughput_ratio",
            "Output tokens a second relative to the baseline arm.",
            [sample for labels, row in rows if row.ratio for sample in _bounded(labels, row.ratio)],
        ),
        (
            "specdeck_acceptance_length",
            "Tokens a verification step emits, the bonus token included.",
            [sample for labels, row in rows for sample in _bounded(labels, row.acceptance.length)],
        ),
        (
            "specdeck_time_to_first_token_seconds",
            "Time to first token.",
            [sample for labels, row in rows for sample in _quantiles(labels, row.ttft_s)],
        ),
        (
            "specdeck_time_per_output_token_seconds",
            "Time per output token.",
            [sample for labels, row in rows for sample in _quantiles(labels, row.tpot_s)],
        ),
        (
            "specdeck_acceptance_at_position",
            "Share of drafts accepted at a draft position, from 1.",
            [
                ({**run, "arm": arm.name, "position": str(p.position)}, p.rate.value)
                for arm in summary.arms
                for p in arm.positions
            ],
        ),
        ("specdeck_excluded_cells", "Cells that were invalid.", [(run, float(summary.excluded_cells))]),
    ]
    lines = []
    for name, text, samples in families:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{_labels(labels)}}} {value!r}" for labels, value in known]
    return "\n".join(lines) + "\n"


def _bounded(labels: dict[str, str], estimate: Estimate) -> list[Sample]:
    """The figure and, where there is an interval, its ends."""
    interval = estimate.interval
    return [
        ({**labels, "bound": "value"}, estimate.value),
        ({**labels, "bound": "lo"}, interval.lo if interval else None),
        ({**labels, "bound": "hi"}, interval.hi if interval else None),
    ]


def _quantiles(labels: dict[str, str], found: Quantiles) -> list[Sample]:
    return [({**labels, "quantile": "0.5"}, found.p50), ({**labels, "quantile": "0.99"}, found.p99)]


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
