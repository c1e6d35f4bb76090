"""How numbers and foreign text are written, the same in every format. Missing is a dash, never 0."""

from __future__ import annotations

import math
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdeck.stats.model import Estimate

MISSING = "–"


def significant(value: float | None, digits: int = 3) -> str:
    """Write with so many significant digits, at least the whole part, no exponent: 0.00123, 1.23, 12.3, 123, 1234."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:.{places}f}"


def fixed(value: float | None, places: int) -> str:
    """Write with so many decimals."""
    return MISSING if value is None else f"{value:.{places}f}"


def count(value: int | None) -> str:
    """Write a whole number."""
    return MISSING if value is None else str(value)


def percent(value: float | None) -> str:
    """Write a fraction of 1 in percent, one decimal."""
    return MISSING if value is None else f"{100 * value:.1f} %"


def percent_interval(estimate: Estimate) -> str:
    """Write a fraction with its interval in percent: 78.1 % [75.0–81.2]."""
    interval = estimate.interval
    if estimate.value is None or interval is None:
        return percent(estimate.value)
    return f"{percent(estimate.value)} [{100 * interval.lo:.1f}–{100 * interval.hi:.1f}]"


def milliseconds(seconds: float | None) -> str:
    """Write seconds as milliseconds, three significant digits."""
    return significant(None if seconds is None else 1000 * seconds)


def with_interval(estimate: Estimate, places: int = 2, suffix: str = "") -> str:
    """Write a figure with its 95 % interval where there is one: 4.31 [4.02–4.60]."""
    text = fixed(estimate.value, places)
    if estimate.value is None:
        return text
    if estimate.interval is None:
        return text + suffix
    return f"{text}{suffix} [{estimate.interval.lo:.{places}f}–{estimate.interval.hi:.{places}f}]"


def ratio(estimate: Estimate | None, *, baseline: str = "baseline") -> str:
    """Write a ratio with its interval: 1.42× [1.30–1.55]. None marks the baseline's own row."""
    return baseline if estimate is None else with_interval(estimate, 2, "×")


def with_spread(estimate: Estimate, digits: int = 3) -> str:
    """Write a figure pooled over rounds with the smallest and largest round: 44.7 [44.6–44.8]."""
    text, spread = significant(estimate.value, digits), estimate.spread
    if estimate.value is None or spread is None or spread.rounds < 2:
        return text
    return f"{text} [{significant(spread.min, digits)}–{significant(spread.max, digits)}]"


def clean(text: str, limit: int = 500) -> str:
    """Make foreign text fit for one line: no control characters or direction marks, bounded length."""
    shown = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
