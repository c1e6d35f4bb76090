"""The figures as CSV with raw numbers: units in the column names, missing is empty, one file a subject."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from specdeck.stats.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.stats.model import Interval, Summary

    Value = str | int | float | None


def render(summary: Summary) -> dict[str, str]:
    """Return file name to content; some of them only where there is something to put into them."""
    return {
        "arms.csv": _arms(summary),
        "per_position.csv": _positions(summary),
        "per_category.csv": _categories(summary),
        "latency.csv": _latency(summary),
        **({"stages.csv": _stages(summary)} if summary.stages else {}),
        **({"quality.csv": _quality(summary)} if summary.quality else {}),
        **({"goodput.csv": _goodput(summary)} if summary.goodput_limits_ms else {}),
    }


def _arms(summary: Summary) -> str:
    head = (
        "arm", "concurrency", "rounds", "requests", "failed", "prompts", "duration_s", "completion_tokens",
        "mean_completion_tokens", "output_tok_s", "output_tok_s_min", "output_tok_s_max", "output_tok_s_lo",
        "output_tok_s_hi", "ratio", "ratio_lo", "ratio_hi", "ratio_prompts", "acceptance_length",
        "acceptance_length_lo", "acceptance_length_hi", "acceptance_length_counters", "acceptance_length_payloads",
        "draft_acceptance_rate", "drafts", "draft_tokens", "accepted_tokens", "prefix_hit_rate", "step_s", "step_s_lo",
        "step_s_hi", "break_even_length", "break_even_length_lo", "break_even_length_hi", "acceptance_kind",
        "throughput_notice",
    )  # fmt: skip
    return write_csv(
        head,
        (
            (
                row.arm, row.concurrency, row.rounds, row.requests, row.failed, row.prompts, row.duration_s,
                row.completion_tokens, row.mean_completion_tokens, row.output_tok_s.value,
                row.output_tok_s.spread.min if row.output_tok_s.spread else None,
                row.output_tok_s.spread.max if row.output_tok_s.spread else None,
                *_bounds(row.output_tok_s.interval),
                row.ratio.value if row.ratio else None, *_bounds(row.ratio.interval if row.ratio else None),
                row.ratio.interval.prompts if row.ratio and row.ratio.interval else None,
                *_figure(row.acceptance.length), row.acceptance.length_from_counters,
                row.acceptance.length_from_payloads, row.acceptance.draft_acceptance_rate, row.acceptance.drafts,
                row.acceptance.draft_tokens, row.acceptance.accepted_tokens, row.prefix_hit_rate, *_figure(row.step_s),
                *_figure(row.break_even or Estimate()), summary.acceptance_kind, summary.throughput_notice,
            )
            for row in summary.rows
        ),
    )  # fmt: skip


def _positions(summary: Summary) -> str:
    return write_csv(
        ("arm", "num_speculative_tokens", "position", "rate", "rate_lo", "rate_hi", "prompts", "acceptance_kind"),
        (
            (
                arm.name,
                arm.num_speculative_tokens,
                p.position,
                *_figure(p.rate),
                p.rate.interval.prompts if p.rate.interval else None,
                summary.acceptance_kind,
            )
            for arm in summary.arms
            for p in arm.positions
        ),
    )


def _categories(summary: Summary) -> str:
    head = (
        "arm", "category", "concurrency", "requests_all_concurrencies", "prompts", "acceptance_length",
        "acceptance_length_lo", "acceptance_length_hi", "draft_acceptance_rate", "request_tok_s", "throughput_notice",
    )  # fmt: skip
    return write_csv(
        head,
        (
            (
                row.arm, row.category, rate.concurrency, row.requests, row.prompts, *_figure(row.acceptance_length),
                row.draft_acceptance_rate, rate.tok_s, summary.throughput_notice,
            )
            for row in summary.categories
            for rate in row.request_tok_s
        ),
    )  # fmt: skip


def _latency(summary: Summary) -> str:
    return write_csv(
        ("arm", "concurrency", "metric", "n", "p50", "p50_lo", "p50_hi", "p99", "p99_near_max", "throughput_notice"),
        (
            (
                row.arm, row.concurrency, metric, found.n, found.p50, *_bounds(found.p50_interval), found.p99,
                str(found.p99_near_max).lower(), summary.throughput_notice,
            )
            for row in summary.rows
            for metric, found in (
                ("ttft_s", row.ttft_s),
                ("tpot_s", row.tpot_s),
                ("itl_s", row.itl_s),
                ("inter_chunk_s", row.inter_chunk_s),
                ("e2e_s", row.e2e_s),
                ("decode_tok_s", row.decode_tok_s),
            )
        ),
    )  # fmt: skip


def _quality(summary: Summary) -> str:
    head = ("check", "arm", "verdict", "value", "value_lo", "value_hi", "unit", "reference", "n", "reason")
    return write_csv(
        head,
        (
            (c.check, c.arm, c.verdict, c.value, *(c.interval or (None, None)), c.unit, c.reference, c.n, c.reason)
            for c in summary.quality
        ),
    )


def _goodput(summary: Summary) -> str:
    limits = [summary.goodput_limits_ms.get(key) for key in ("ttft", "tpot", "e2el")]
    return write_csv(
        (
            "arm", "concurrency", "limit_ttft_ms", "limit_tpot_ms", "limit_e2el_ms", "requests", "good", "share",
            "share_lo", "share_hi", "request_goodput", "throughput_notice",
        ),
        (
            (
                row.arm, row.concurrency, *limits, row.goodput.requests, row.goodput.good, *_figure(row.goodput.share),
                row.goodput.req_s, summary.throughput_notice,
            )
            for row in summary.rows
            if row.goodput is not None
        ),
    )  # fmt: skip


def _stages(summary: Summary) -> str:
    head = (
        "arm", "concurrency", "stage", "request_rate", "to_request_rate", "requests", "failed", "output_tok_s",
        "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s", "client_queue_p99_ms", "acceptance_length",
        "acceptance_length_lo", "acceptance_length_hi", "good", "throughput_notice",
    )  # fmt: skip
    return write_csv(
        head,
        (
            (
                row.arm, row.concurrency, row.stage, row.request_rate, row.to_request_rate, row.requests, row.failed,
                row.output_tok_s, row.ttft_s.p50, row.ttft_s.p99, row.tpot_s.p50, row.tpot_s.p99, row.queue_p99_ms,
                *_figure(row.acceptance_length), row.goodput.good if row.goodput else None, summary.throughput_notice,
            )
            for row in summary.stages
        ),
    )  # fmt: skip


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.lo, interval.hi)


def _figure(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return (estimate.value, *_bounds(estimate.interval))


def write_csv(head: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """A head and rows; missing values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Value) -> str:
    """Nine significant digits are more than was measured. A name that a spreadsheet would run gets a quote."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9g}"
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
