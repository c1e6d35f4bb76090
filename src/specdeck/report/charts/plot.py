"""A plot as inline SVG: x in percent of whatever width there is, y and text in pixels, colours from the style sheet.

Without a viewBox nothing is scaled: letters are as large on a phone as on a desk, and the height is known before
anything is drawn. Labels stand outside the plot, in the margin that the style sheet keeps free.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEIGHT = 232
BELOW = 42
"""Room under the plot for ticks and the name of the axis, in pixels."""
SERIES = 5
_SHAPES = (
    '<circle r="4.2"/>',
    '<path d="M-4-4h8v8h-8z"/>',
    '<path d="M0-5L5 4H-5z"/>',
    '<path d="M0-5.2L5.2 0 0 5.2-5.2 0z"/>',
    '<path d="M0 5L5-4H-5z"/>',
)


@dataclass(frozen=True)
class Look:
    """How a series is told apart: by colour (a class of the style sheet), by the shape of its marks, and by dashes."""

    colour: str
    shape: int
    dashed: bool = False

    @property
    def css(self) -> str:
        """Class names."""
        return f"{self.colour} dashed" if self.dashed else self.colour


BASELINE = Look("base", 3)


def look(number: int, *, dashed: bool = False) -> Look:
    """The look of the series at that place; it repeats after SERIES."""
    return Look(f"s{number % SERIES}", number % len(_SHAPES) if number % SERIES != 3 else 4, dashed)


@dataclass
class Plot:
    """A plot that is filled mark by mark.

    Attributes:
        title: what it shows, the caption.
        alt: the same as figures, for somebody who cannot see it.
        x, y: ends of the axes, in the units of the data.
        x_log: whether the horizontal axis is logarithmic.
        height: of the plot without what stands under it, in pixels.
    """

    title: str
    alt: str
    x: tuple[float, float]
    y: tuple[float, float]
    x_log: bool = False
    height: int = HEIGHT
    note: str = ""
    legend: list[tuple[str, Look]] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    def at_x(self, value: float) -> str:
        """A place on the horizontal axis."""
        low, high = self.x
        if self.x_log:
            share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        else:
            share = (value - low) / (high - low)
        return f"{100 * share:.2f}%"

    def at_y(self, value: float) -> float:
        """A place on the vertical axis, from the top."""
        low, high = self.y
        return round(self.height * (1 - (value - low) / (high - low)), 1)

    def x_axis(self, ticks: Sequence[tuple[float, str]], name: str) -> None:
        """Labels under the plot, and the axis' name."""
        for value, text in ticks:
            self.marks.append(
                f'<text x="{self.at_x(value)}" y="{self.height + 17}" text-anchor="middle">{escape(text)}</text>'
            )
        self.marks.append(
            f'<text class="name" x="50%" y="{self.height + 37}" text-anchor="middle">{escape(name)}</text>'
        )

    def y_axis(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Lines across the plot with labels at their left."""
        for value, text in ticks:
            y = self.at_y(value)
            self.marks.append(
                f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
                f'<text x="-8" y="{y + 4}" text-anchor="end">{escape(text)}</text>'
            )

    def line(self, points: Sequence[tuple[float, float]], style: Look) -> None:
        """Straight pieces between the points."""
        pieces = "".join(
            f'<line x1="{self.at_x(a)}" y1="{self.at_y(b)}" x2="{self.at_x(c)}" y2="{self.at_y(d)}"/>'
            for (a, b), (c, d) in itertools.pairwise(points)
        )
        if pieces:
            self.marks.append(f'<g class="line {style.css}">{pieces}</g>')

    def mark(self, x: float, y: float, style: Look, said: str) -> None:
        """A mark that says its figures where a pointer rests on it."""
        self.marks.append(
            f'<svg class="mark {style.css}" x="{self.at_x(x)}" y="{self.at_y(y)}">'
            f"<title>{escape(said)}</title>{_SHAPES[style.shape]}</svg>"
        )

    def whisker(self, x: float, low: float, high: float, style: Look) -> None:
        """An upright line from low to high."""
        self.marks.append(
            f'<line class="whisker {style.css}" x1="{self.at_x(x)}" x2="{self.at_x(x)}" '
            f'y1="{self.at_y(low)}" y2="{self.at_y(high)}"/>'
        )

    def html(self) -> str:
        """The figure with caption, legend and plot."""
        items = "".join(f"<li>{_sample(style)}{escape(name)}</li>" for name, style in self.legend)
        legend = f'<ul class="legend">{items}</ul>' if items else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f"<figure><figcaption>{escape(self.title)}</figcaption>{legend}\n"
            f'<svg class="plot" height="{self.height + BELOW}" role="img" aria-label="{escape(self.alt)}">'
            f"{''.join(self.marks)}</svg>{note}</figure>\n"
        )


def _sample(style: Look) -> str:
    """A piece of a series' line with its mark, for the legend."""
    return (
        '<svg class="sample" width="26" height="14" aria-hidden="true">'
        f'<g class="line {style.css}"><line x1="0" x2="26" y1="7" y2="7"/></g>'
        f'<svg class="mark {style.css}" x="13" y="7">{_SHAPES[style.shape]}</svg></svg>'
    )


def linear_ticks(high: float, most: int = 5) -> list[float]:
    """Round figures from 0 to at least `high`, at steps of 1, 2 or 5 times a power of ten."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [round(step * i, 10) for i in range(math.ceil(high / step - 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round figures between low and high: 1, 2, 5 times powers of ten, or only the powers where those are too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


def plain(value: float) -> str:
    """A tick's text: no exponent, no trailing zeros."""
    return f"{value:.10f}".rstrip("0").rstrip(".") if value < 1e6 else f"{value:.0f}"
