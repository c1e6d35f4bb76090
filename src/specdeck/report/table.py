"""What a table is, once for all formats, and the cells that several tables share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.report.format import milliseconds

if TYPE_CHECKING:
    from specdeck.stats.model import Estimate, Quantiles

CI = "[95 % interval]"
ROUNDS = "[min–max of rounds]"
NEAR_MAX = "* fewer than 100 values: the 99th percentile is close to the largest"


@dataclass(frozen=True)
class Column:
    """A column's head, what the brackets in it mean, and whether it holds text (left) or figures (right).

    `wrap`: sentences, which may take several lines.
    """

    head: str
    below: str = ""
    text: bool = False
    wrap: bool = False


@dataclass(frozen=True)
class Table:
    """A table ready to print. `notice` stands beside the title wherever throughput or time is shown."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notice: str | None = None
    notes: tuple[str, ...] = ()


def median(q: Quantiles) -> str:
    """A median in milliseconds with its interval."""
    text, interval = milliseconds(q.p50), q.p50_interval
    if q.p50 is None or interval is None:
        return text
    return f"{text} [{milliseconds(interval.lo)}–{milliseconds(interval.hi)}]"


def p99(q: Quantiles) -> str:
    """A 99th percentile in milliseconds, marked where there are few values."""
    return milliseconds(q.p99) + ("*" if q.p99_near_max and q.p99 is not None else "")


def milliseconds_spread(estimate: Estimate) -> str:
    """Write seconds as milliseconds with the smallest and largest round: 17.5 [17.4–17.6]."""
    text, spread = milliseconds(estimate.value), estimate.spread
    if estimate.value is None or spread is None or spread.rounds < 2:
        return text
    return f"{text} [{milliseconds(spread.min)}–{milliseconds(spread.max)}]"
