"""The forest plot: every ratio of candidate to base with its interval and noise floor, one under another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from specdeck.report.compare.words import label
from specdeck.report.plots import WIDTH_IN, picture

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome
    from specdeck.report.plots import Theme
    from specdeck.stats.comparison import Effect

MAX_ROWS = 60
_COLOURS = {"worse": 1, "better": 0}


def forest_height(outcome: Outcome) -> float:
    """Height of the picture in inches."""
    return 1.15 + 0.24 * max(len(_rows(outcome)), 1)


def forest(outcome: Outcome, theme: Theme) -> bytes | None:
    """Draw as SVG; None without ratios. Rows beyond MAX_ROWS are left to the table."""
    rows = _rows(outcome)
    if not rows:
        return None

    def fill(axes: Any) -> bool:
        for place, effect in enumerate(reversed(rows)):
            index = _COLOURS.get(effect.verdict)
            colour = theme.baseline if index is None else theme.arms[index]
            value = effect.value or 1
            if effect.floor is not None:
                low, high = 1 / (1 + effect.floor), 1 + effect.floor
                axes.barh(place, high - low, 0.78, low, color=theme.faint)
            if effect.interval is not None:
                axes.hlines(place, effect.interval.lo, effect.interval.hi, color=colour, linewidth=2)
            marker = {"worse": "X", "better": "^"}.get(effect.verdict, "o")
            axes.plot(value, place, marker, color=colour, markersize=6)
        axes.axvline(1, color=theme.ink, linewidth=0.9)
        axes.set_yticks(range(len(rows)), [label(effect) for effect in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        ends = [abs(math.log(x)) for e in rows for x in _ends(e)]
        reach = min(max([*ends, math.log(1.02)]) * 1.08, math.log(4))
        axes.set_xlim(math.exp(-reach), math.exp(reach))
        axes.set_xlabel("candidate / base (grey: noise floor)")
        axes.set_title("Ratios with 95 % intervals: ✗ worse, ▲ better", loc="left", fontsize=10.5, fontweight="bold")
        return True

    return picture(fill, theme, "svg", (WIDTH_IN, forest_height(outcome)), grid="x")


def _rows(outcome: Outcome) -> list[Effect]:
    return [e for e in outcome.comparison.effects if e.kind == "ratio" and e.value is not None][:MAX_ROWS]


def _ends(effect: Effect) -> list[float]:
    found = [effect.value or 1]
    if effect.interval is not None:
        found += [effect.interval.lo, effect.interval.hi]
    return found
