"""Pictures of a summary with matplotlib, which loads only here. The same summary gives the same bytes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specdeck.report.format import clean, significant
from specdeck.report.headline import arm_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.stats.model import ArmSummary, Row, Summary

Format = Literal["png", "svg"]
PNG_DPI = 200
WIDTH_IN, HEIGHT_IN = 5.6, 3.9
MAX_LABELLED_BARS = 16
MAX_NAME = 24
LABEL_WIDTH, LABEL_HALF = 1.6, 8.0
LEGEND_CHARACTERS = 60


@dataclass(frozen=True)
class Theme:
    """Colours of a picture. `arms` are told apart by people with any colour vision (Okabe and Ito)."""

    paper: str
    ink: str
    faint: str
    baseline: str
    arms: tuple[str, ...]


LIGHT = Theme("#ffffff", "#1f2328", "#d9dde2", "#6b7280", ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#997700"))
_MARKERS = ("o", "s", "^", "D", "v", "P")


def draw(name: str, summary: Summary, kind: Format = "png") -> bytes | None:
    """Draw the picture called `acceptance` or `throughput`; None when the summary has nothing to show in it."""
    fill = _acceptance if name == "acceptance" else _throughput
    theme = LIGHT
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only pictures should cost
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 10.5,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.faint,
        "axes.facecolor": theme.paper,
        "figure.facecolor": theme.paper,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "svg.hashsalt": "specdeck",
        "text.parse_math": False,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        if not fill(axes, summary, theme):
            return None
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(length=0)
        axes.grid(axis="y", color=theme.faint, linewidth=0.8)
        axes.set_axisbelow(True)
        data = io.BytesIO()
        metadata: dict[str, Any] = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
        figure.savefig(data, format=kind, dpi=PNG_DPI, metadata=metadata)
    return data.getvalue()


def _acceptance(axes: Any, summary: Summary, theme: Theme) -> bool:
    arms = [arm for arm in summary.arms if arm.positions]
    if not arms:
        return False
    curves: list[tuple[list[float], list[float]]] = []
    for number, arm in enumerate(arms):
        colour, marker = _look(summary, arm.name, theme)
        aside = 0.07 * (number - (len(arms) - 1) / 2)  # so that whiskers of two arms stand beside each other
        xs = [p.position + aside for p in arm.positions]
        ys = [100 * (p.rate.value or 0) for p in arm.positions]
        axes.plot(xs, ys, color=colour, marker=marker, markersize=5.5, linewidth=1.8)
        for x, p in zip(xs, arm.positions, strict=True):
            if p.rate.interval is not None:
                low, high = p.rate.interval.lo, p.rate.interval.hi
                axes.vlines(x, 100 * low, 100 * high, color=colour, linewidth=1.4, alpha=0.75)
        curves.append((xs, ys))
    depth = max(len(arm.positions) for arm in arms)
    axes.set_ylim(0, 100)
    axes.set_xlim(0.7, depth + 0.42 * max(depth, 4))
    axes.set_xticks(range(1, depth + 1) if depth <= 16 else range(1, depth + 1, 2))
    axes.set_yticks(range(0, 101, 20), [f"{y} %" for y in range(0, 101, 20)])
    axes.set_xlabel("draft position")
    for arm, (xs, _), y in zip(arms, curves, _label_heights(curves), strict=True):
        colour, _ = _look(summary, arm.name, theme)
        axes.annotate(
            _end_label(arm),
            (xs[-1], y),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9.5,
        )
    n = max(arm.prompts for arm in arms)
    whiskers = any(p.rate.interval for arm in arms for p in arm.positions)
    below = f"{_where(summary)}, {n} prompts" + ("; whiskers: 95 % interval over prompts" if whiskers else "")
    _titles(axes, "Share of drafts accepted at each position", below, theme)
    return True


def _end_label(arm: ArmSummary) -> str:
    length = arm.acceptance.length.value
    name = _short(arm_label(arm))
    return name if length is None else f"{name}\nlength {length:.2f}"


def _throughput(axes: Any, summary: Summary, theme: Theme) -> bool:
    rows = [row for row in summary.rows if row.output_tok_s.value is not None]
    if not rows:
        return False
    levels = sorted({row.concurrency for row in rows})
    arms = [arm for arm in summary.arms if any(row.arm == arm.name for row in rows)]
    width = 0.8 / len(arms)
    top = max(_top(row) for row in rows)
    for number, arm in enumerate(arms):
        colour, _ = _look(summary, arm.name, theme)
        mine = [row for row in rows if row.arm == arm.name]
        xs = [levels.index(row.concurrency) + (number - (len(arms) - 1) / 2) * width for row in mine]
        axes.bar(xs, [row.output_tok_s.value for row in mine], width * 0.9, color=colour, label=_short(arm_label(arm)))
        for x, row in zip(xs, mine, strict=True):
            spread = row.output_tok_s.spread
            if spread is not None and spread.rounds > 1:
                axes.vlines(x, spread.min, spread.max, color=theme.ink, linewidth=1.4)
            if len(rows) <= MAX_LABELLED_BARS:
                axes.text(
                    x,
                    _top(row) + 0.015 * top,
                    significant(row.output_tok_s.value),
                    ha="center",
                    va="bottom",
                    fontsize=9,
                )
    axes.set_xticks(range(len(levels)), [str(level) for level in levels])
    axes.set_xlim(-0.55, len(levels) - 0.45)
    axes.set_ylim(0, top * 1.12)
    axes.set_xlabel("concurrency (requests in flight)")
    axes.set_ylabel("output tok/s")
    axes.figure.legend(
        loc="outside lower center",
        ncols=_legend_columns([_short(arm_label(arm)) for arm in arms]),
        frameon=False,
        fontsize=9.5,
        handlelength=1,
        handleheight=1,
    )
    rounds = max(row.rounds for row in rows)
    below = (
        f"{_where(summary)}, {max(row.prompts for row in rows)} prompts, {rounds} {'rounds' if rounds > 1 else 'round'}"
    )
    below += "; line: slowest to fastest round" if rounds > 1 else ""
    title = "Output throughput"
    _titles(axes, f"{title}\n{summary.throughput_notice}" if summary.throughput_notice else title, below, theme)
    return True


def _legend_columns(labels: Sequence[str]) -> int:
    """As many columns as fit below the picture, at about LEGEND_CHARACTERS to a line."""
    return max(1, min(len(labels), LEGEND_CHARACTERS // (max(map(len, labels)) + 5)))


def _titles(axes: Any, title: str, below: str, theme: Theme) -> None:
    """A bold title of any number of lines, and under it what the picture rests on."""
    axes.set_title(f"{title}\n", loc="left", fontsize=10.5, fontweight="bold", linespacing=1.35)
    axes.text(0, 1.025, below, transform=axes.transAxes, fontsize=8.8, color=theme.ink, alpha=0.85, va="bottom")


def _top(row: Row) -> float:
    spread = row.output_tok_s.spread
    return max(row.output_tok_s.value or 0, spread.max if spread else 0)


def _look(summary: Summary, name: str, theme: Theme) -> tuple[str, str]:
    """An arm's colour and marker: its place in the run decides, so that all pictures agree."""
    if name == summary.baseline:
        return theme.baseline, _MARKERS[-1]
    number = [arm.name for arm in summary.arms if arm.name != summary.baseline].index(name)
    return theme.arms[number % len(theme.arms)], _MARKERS[number % len(_MARKERS)]


def _label_heights(curves: Sequence[tuple[list[float], list[float]]]) -> list[float]:
    """Where each curve's label goes: at its end, moved up or down until it covers no curve and no other label.

    A label is about LABEL_WIDTH positions wide and 2 * LABEL_HALF percent high.
    """
    placed: list[tuple[float, float]] = []
    for number, (xs, ys) in enumerate(curves):
        start, end = xs[-1] + 0.1, xs[-1] + LABEL_WIDTH * max(1.0, max(c[0][-1] for c in curves) / 7)
        taken = [(y - LABEL_HALF, y + LABEL_HALF) for x, y in placed if x + LABEL_WIDTH > start]
        for other, (other_xs, other_ys) in enumerate(curves):
            reach = min(end, other_xs[-1])
            if other != number and reach > start:
                found = [_height(other_xs, other_ys, start), _height(other_xs, other_ys, reach)]
                taken.append((min(found), max(found)))
        wanted = sorted((ys[-1] + step for step in range(-60, 61, 2)), key=lambda y: abs(y - ys[-1]))
        free = [
            y
            for y in wanted
            if LABEL_HALF <= y <= 100 - LABEL_HALF
            and all(y + LABEL_HALF < low or y - LABEL_HALF > high for low, high in taken)
        ]
        placed.append((xs[-1], free[0] if free else ys[-1]))
    return [y for _, y in placed]


def _height(xs: Sequence[float], ys: Sequence[float], at: float) -> float:
    import numpy as np  # noqa: PLC0415

    return float(np.interp(at, xs, ys))


def _where(summary: Summary) -> str:
    return _short(clean(summary.recipe))


def _short(text: str) -> str:
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
