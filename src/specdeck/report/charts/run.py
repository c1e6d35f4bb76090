"""The charts of one run: acceptance, throughput against concurrency and draft length, latency, and when what ran."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from specdeck.report.charts.plot import BASELINE, Look, Plot, linear_ticks, log_ticks, look, plain
from specdeck.report.format import clean, milliseconds, percent, significant, with_spread
from specdeck.report.headline import arm_label
from specdeck.report.pictures import PICTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.stats.model import ArmSummary, Distribution, Row, Summary

TIMES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token"}
LANE = 30
_SHARES = [(i / 5, f"{20 * i} %") for i in range(6)]


def charts(summary: Summary) -> dict[str, str]:
    """HTML figures by the key of the table that they stand with; `timeline` has no table."""
    found = {
        "throughput": [_against_concurrency(summary), _against_length(summary)],
        "acceptance": [_acceptance(summary)],
        "latency": [_latency(summary, metric) for metric in TIMES],
        "timeline": [_timeline(summary)],
    }
    texts = {key: "".join(plot.html() for plot in plots if plot is not None) for key, plots in found.items()}
    return {key: text for key, text in texts.items() if text}


def _look(summary: Summary, name: str, *, dashed: bool = False) -> Look:
    """An arm looks the same in every chart: its place in the run decides."""
    if name == summary.baseline:
        return Look(BASELINE.colour, BASELINE.shape, dashed)
    return look([arm.name for arm in summary.arms if arm.name != summary.baseline].index(name), dashed=dashed)


def _acceptance(summary: Summary) -> Plot | None:
    arms = [arm for arm in summary.arms if arm.positions]
    if not arms:
        return None
    depth = max(len(arm.positions) for arm in arms)
    plot = Plot("Share of drafts accepted at each position", _alt("acceptance", summary), (0.6, depth + 0.4), (0, 1))
    plot.y_axis(_SHARES)
    step = 1 if depth <= 10 else 2 if depth <= 20 else 5
    plot.x_axis([(i, str(i)) for i in range(1, depth + 1, step)], "draft position")
    for number, arm in enumerate(arms):
        style = _look(summary, arm.name)
        aside = 0.06 * (number - (len(arms) - 1) / 2)  # whiskers of two arms stand beside each other
        points = [(p.position + aside, p.rate.value, p) for p in arm.positions if p.rate.value is not None]
        plot.line([(x, y) for x, y, _ in points], style)
        for x, y, p in points:
            if p.rate.interval is not None:
                plot.whisker(x, p.rate.interval.lo, p.rate.interval.hi, style)
            plot.mark(x, y, style, f"{arm_label(arm)}, position {p.position}: {percent(y)}")
        plot.legend.append((arm_label(arm), style))
    if any(p.rate.interval for arm in arms for p in arm.positions):
        plot.note = "Upright lines: 95 % interval over prompts."
    return plot


def _against_concurrency(summary: Summary) -> Plot | None:
    rows = [row for row in summary.rows if row.output_tok_s.value is not None]
    if not rows:
        return None
    levels = sorted({row.concurrency for row in rows})
    top = linear_ticks(max(_top(row) for row in rows))
    plot = Plot(
        "Output tok/s against concurrency",
        _alt("throughput", summary),
        (-0.5, len(levels) - 0.5),
        (0, top[-1]),
    )
    plot.y_axis([(y, plain(y)) for y in top])
    plot.x_axis([(i, str(level)) for i, level in enumerate(levels)], "requests in flight")
    arms = [arm for arm in summary.arms if any(row.arm == arm.name for row in rows)]
    for number, arm in enumerate(arms):
        style = _look(summary, arm.name)
        aside = 0.05 * (number - (len(arms) - 1) / 2)
        mine = [(levels.index(row.concurrency) + aside, row) for row in rows if row.arm == arm.name]
        plot.line([(x, row.output_tok_s.value or 0) for x, row in mine], style)
        for x, row in mine:
            _throughput_mark(plot, x, row, style, arm)
        plot.legend.append((arm_label(arm), style))
    if max(row.rounds for row in rows) > 1:
        plot.note = "Upright lines: slowest to fastest round."
    return plot


def _against_length(summary: Summary) -> Plot | None:
    """Only where a method was measured with more than one draft length."""
    by_method: dict[str, list[ArmSummary]] = {}
    for arm in summary.arms:
        if arm.method is not None and arm.num_speculative_tokens is not None:
            by_method.setdefault(arm.method, []).append(arm)
    swept = {
        method: sorted(arms, key=lambda arm: arm.num_speculative_tokens or 0)
        for method, arms in by_method.items()
        if len({arm.num_speculative_tokens for arm in arms}) > 1
    }
    rows = {(row.arm, row.concurrency): row for row in summary.rows if row.output_tok_s.value is not None}
    levels = sorted({at for _, at in rows})
    if not swept or not rows:
        return None
    longest = max(arm.num_speculative_tokens or 0 for arms in swept.values() for arm in arms)
    top = linear_ticks(max(_top(row) for row in rows.values()))
    plot = Plot("Output tok/s against draft length", "", (0.5, longest + 0.5), (0, top[-1]))
    plot.y_axis([(y, plain(y)) for y in top])
    plot.x_axis([(n, str(n)) for n in range(1, longest + 1, 1 if longest <= 10 else 2)], "draft length n")
    said, number = [], 0
    for method, arms in swept.items():
        for level in dict.fromkeys((levels[0], levels[-1])):
            style = look(number)
            number += 1
            found = [
                (arm.num_speculative_tokens or 0, rows[arm.name, level], arm)
                for arm in arms
                if (arm.name, level) in rows
            ]
            plot.line([(n, row.output_tok_s.value or 0) for n, row, _ in found], style)
            for n, row, arm in found:
                _throughput_mark(plot, n, row, style, arm)
                said.append(f"{clean(method, 24)} n={n} at concurrency {level} {with_spread(row.output_tok_s)}")
            plot.legend.append((f"{clean(method, 24)}, concurrency {level}", style))
    plot.alt = f"Output tok/s by draft length: {'; '.join(said)}."
    return plot


def _throughput_mark(plot: Plot, x: float, row: Row, style: Look, arm: ArmSummary) -> None:
    spread = row.output_tok_s.spread
    if spread is not None and spread.rounds > 1:
        plot.whisker(x, spread.min, spread.max, style)
    said = f"{arm_label(arm)}, concurrency {row.concurrency}: {with_spread(row.output_tok_s)} tok/s"
    plot.mark(x, row.output_tok_s.value or 0, style, said)


def _latency(summary: Summary, metric: str) -> Plot | None:
    """Cumulative shares of requests, at the lowest and the highest concurrency."""
    found = [d for d in summary.distributions if d.metric == metric and d.n > 1 and d.quantiles[0] > 0]
    if not found:
        return None
    levels = sorted({d.concurrency for d in found})
    shown = [d for d in found if d.concurrency in (levels[0], levels[-1])]
    low, high = min(d.quantiles[0] for d in shown) * 0.93, max(d.quantiles[-1] for d in shown) * 1.07
    labels = {arm.name: arm_label(arm) for arm in summary.arms}
    plot = Plot(
        f"{TIMES[metric]}: share of requests at or below",
        f"{TIMES[metric]} in ms, median and largest: {'; '.join(_said(d, labels) for d in shown)}.",
        (1000 * low, 1000 * high),
        (0, 1),
        x_log=True,
    )
    plot.y_axis(_SHARES)
    plot.x_axis([(x, plain(x)) for x in log_ticks(1000 * low, 1000 * high)], "ms (logarithmic)")
    for d in shown:
        style = _look(summary, d.arm, dashed=len(levels) > 1 and d.concurrency == levels[-1])
        steps = len(d.quantiles) - 1
        plot.line([(1000 * x, i / steps) for i, x in enumerate(d.quantiles)], style)
        plot.mark(1000 * d.quantiles[steps // 2], 0.5, style, _said(d, labels))
        plot.legend.append((f"{labels.get(d.arm, d.arm)}, concurrency {d.concurrency}", style))
    return plot


def _said(d: Distribution, labels: dict[str, str]) -> str:
    middle, largest = d.quantiles[len(d.quantiles) // 2], d.quantiles[-1]
    return (
        f"{labels.get(d.arm, clean(d.arm))} at concurrency {d.concurrency} "
        f"{milliseconds(middle)} and {milliseconds(largest)} ({d.n} requests)"
    )


def _timeline(summary: Summary) -> Plot | None:
    """A lane for each arm, a block for each cell; blocks of invalid cells are outlines."""
    spans = summary.timeline
    if not spans:
        return None
    names = [arm.name for arm in summary.arms if any(span.arm == arm.name for span in spans)]
    labels = {arm.name: arm_label(arm) for arm in summary.arms}
    end = max(span.start_s + span.duration_s for span in spans) or 1.0
    unit, name = (60.0, "minutes since the first cell") if end > 180 else (1.0, "seconds since the first cell")
    invalid = sum(not span.valid for span in spans)
    busy = "; ".join(f"{labels[arm]} {_lane_alt([s for s in spans if s.arm == arm])}" for arm in names)
    plot = Plot("When each cell was measured", f"Timeline: {busy}.", (0, end), (0, 1), height=LANE * len(names) + 4)
    plot.x_axis([(unit * x, plain(x)) for x in linear_ticks(end / unit)[:-1]], name)
    for lane, arm in enumerate(names):
        style = _look(summary, arm)
        for span in (s for s in spans if s.arm == arm):
            wide = 100 * span.duration_s / end
            what = f"{labels[arm]} {span.cell_id}: {significant(span.duration_s)} s"
            state = "" if span.valid else " invalid"
            plot.marks.append(
                f'<rect class="block {style.css}{state}" x="{plot.at_x(span.start_s)}" y="{LANE * lane + 4}" '
                f'width="{wide:.2f}%" height="{LANE - 8}"><title>{escape(what + state)}</title></rect>'
            )
        plot.legend.append((labels[arm], style))
    if invalid:
        plot.note = "Outlines: invalid cells, which are in no figure."
    return plot


def _lane_alt(spans: Sequence[object]) -> str:
    return f"{len(spans)} cell{'s' if len(spans) != 1 else ''}"


def _top(row: Row) -> float:
    spread = row.output_tok_s.spread
    return max(row.output_tok_s.value or 0, spread.max if spread else 0)


def _alt(name: str, summary: Summary) -> str:
    return next(picture.alt(summary) for picture in PICTURES if picture.name == name)
