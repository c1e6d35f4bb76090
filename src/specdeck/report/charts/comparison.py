"""The charts of a comparison: the forest of ratios, and acceptance by position of both sides."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from specdeck.report.charts.plot import Look, Plot
from specdeck.report.compare.words import change, label
from specdeck.report.format import clean, percent

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome
    from specdeck.stats.comparison import Effect

MAX_ROWS = 60
MAX_CURVES = 6
_SHAPES = {"worse": '<path d="M-5-5L5 5M5-5L-5 5"/>', "better": '<path d="M0-5L5 4H-5z"/>'}
_BASE, _CANDIDATE = Look("base", 0, dashed=True), Look("s0", 1)
_SHARES = [(i / 5, f"{20 * i} %") for i in range(6)]


def forest(outcome: Outcome) -> str:
    """A row for each ratio: its name, its interval on a common logarithmic scale, its figures. Empty without ratios."""
    rows = [e for e in outcome.comparison.effects if e.kind == "ratio" and e.value is not None]
    shown = rows[:MAX_ROWS]
    if not shown:
        return ""
    ends = [abs(math.log(x)) for e in shown for x in _ends(e)]
    reach = min(max([*ends, math.log(1.02)]) * 1.08, math.log(4))
    items = "".join(
        f'<li class="{_class(e)}"><span class="name">{escape(label(e))}</span>{_strip(e, reach)}'
        f'<span class="said">{escape(change(e))} <b>{escape(e.verdict)}</b></span></li>'
        for e in shown
    )
    low, high = f"×{math.exp(-reach):.2f}", f"×{math.exp(reach):.2f}"
    more = f" The other {len(rows) - MAX_ROWS} are in the table." if len(rows) > MAX_ROWS else ""
    return (
        f'<figure class="wide"><figcaption>Candidate / base with 95 % intervals</figcaption>'
        f'<ol class="forest">{items}'
        f'<li class="scale" aria-hidden="true"><span></span><span class="ends"><span>{low}</span><span>×1</span>'
        f"<span>{high}</span></span></li></ol>"
        f'<p class="note">Grey bands: the noise floor. ✕ worse, ▲ better.{more}</p></figure>\n'
    )


def acceptance(outcome: Outcome) -> str:
    """Curves of base and candidate for each arm and concurrency that has positions."""
    by_place: dict[tuple[str, int], list[Effect]] = {}
    for effect in outcome.comparison.effects:
        if effect.key.position is not None and effect.base is not None and effect.candidate is not None:
            by_place.setdefault((effect.key.arm, effect.key.concurrency), []).append(effect)
    plots = [_curves(arm, at, effects) for (arm, at), effects in list(by_place.items())[:MAX_CURVES]]
    return f'<div class="pair">{"".join(plots)}</div>' if plots else ""


def _curves(arm: str, concurrency: int, effects: list[Effect]) -> str:
    said = "; ".join(f"position {e.key.position} {percent(e.base)} to {percent(e.candidate)}" for e in effects)
    depth = max(e.key.position or 0 for e in effects)
    title = f"{clean(arm, 24)} at concurrency {concurrency}: drafts accepted at each position"
    plot = Plot(title, f"{title}, base to candidate: {said}.", (0.6, depth + 0.4), (0, 1))
    plot.y_axis(_SHARES)
    plot.x_axis([(i, str(i)) for i in range(1, depth + 1, 1 if depth <= 10 else 2)], "draft position")
    for name, style, values in (
        ("base", _BASE, [e.base for e in effects]),
        ("candidate", _CANDIDATE, [e.candidate for e in effects]),
    ):
        points = [(float(e.key.position or 0), y) for e, y in zip(effects, values, strict=True) if y is not None]
        plot.line(points, style)
        for x, y in points:
            plot.mark(x, y, style, f"{name}, position {x:g}: {percent(y)}")
        plot.legend.append((name, style))
    return plot.html()


def _strip(effect: Effect, reach: float) -> str:
    def at(value: float) -> float:
        return min(max(50 * (1 + math.log(value) / reach), 0), 100)

    parts = []
    if effect.floor is not None:
        low, high = at(1 / (1 + effect.floor)), at(1 + effect.floor)
        parts.append(f'<rect class="floor" x="{low:.2f}%" width="{high - low:.2f}%" y="1" height="20"/>')
    parts.append('<line class="one" x1="50%" x2="50%" y1="0" y2="22"/>')
    if effect.interval is not None:
        low, high = at(effect.interval.lo), at(effect.interval.hi)
        parts.append(f'<line class="interval" x1="{low:.2f}%" x2="{high:.2f}%" y1="11" y2="11"/>')
    shape = _SHAPES.get(effect.verdict, '<circle r="4"/>')
    parts.append(f'<svg class="mark" x="{at(effect.value or 1):.2f}%" y="11">{shape}</svg>')
    return f'<svg class="strip" height="22" aria-hidden="true">{"".join(parts)}</svg>'


def _class(effect: Effect) -> str:
    return effect.verdict if effect.verdict in _SHAPES else "same"


def _ends(effect: Effect) -> list[float]:
    found = [effect.value or 1]
    if effect.interval is not None:
        found += [effect.interval.lo, effect.interval.hi]
    return [x for x in found if x > 0]
