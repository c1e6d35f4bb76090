"""Draft lengths side by side: measured, predicted, and what is recommended, as tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.gates.measurement import fingerprint
from specdeck.report.format import MISSING, clean, count, fixed, milliseconds, significant, with_interval
from specdeck.report.table import CI, Column, Table
from specdeck.stats.sample import samples
from specdeck.stats.tune import Arm, advise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.report.step_times import Profile
    from specdeck.results.schema import Cell, RequestRecord, Run
    from specdeck.stats.model import Estimate
    from specdeck.stats.tune import Advice, TunePoint

    Loaded = Sequence[tuple[Run, Sequence[tuple[Cell, Sequence[RequestRecord]]]]]

SAME = ("device", "processor", "GPUs", "driver", "vLLM", "prompts")
"""Parts of the fingerprint in which runs must agree to be put side by side; recipe and plan name draft lengths."""
STEP_BASIS = {
    "measured": "",
    "profile": "profile",
    "between": "between measured lengths",
    "beyond": "beyond measured lengths",
    "bounds": "fixed to proportional",
    "unknown": "not known",
}


def advice(
    loaded: Loaded, profile: Profile | None, max_n: int | None, trained: Mapping[str, int | None]
) -> list[Advice]:
    """Predict and choose for every drafting method and concurrency of some runs.

    Args:
        loaded: runs with their cells.
        profile: step times to use instead of the runs' own.
        max_n: longest draft to predict; None: what a DFlash drafter was trained for, else the longest measured.
        trained: longest trained draft by run id.

    Raises:
        SpecdeckError: the runs were not measured in the same place with the same engine and prompts.
    """
    _same(loaded)
    arms: dict[tuple[str, int], dict[int, Arm]] = {}
    longest: dict[str, int] = {}
    plain: dict[int, Arm] = {}
    for run, cells in loaded:
        for (name, concurrency), sample in samples(cells).items():
            info = run.arms.get(name)
            if info is None or (info.method is not None and info.num_speculative_tokens is None):
                continue
            if info.method is None:
                plain.setdefault(concurrency, Arm(0, sample))
                continue
            n = info.num_speculative_tokens or 0
            arms.setdefault((info.method, concurrency), {}).setdefault(n, Arm(n, sample))
            block = trained.get(run.run_id) if info.method == "dflash" else None
            longest[info.method] = max(longest.get(info.method, 1), block or n)
    found = []
    for (method, concurrency), by_n in sorted(arms.items()):
        known = [plain[concurrency]] if concurrency in plain else []
        given = profile.step_s(method, concurrency) if profile else None
        if profile is not None and given is None:
            continue
        upto = max_n or longest[method]
        found.append(advise(method, concurrency, [*known, *by_n.values()], upto, step_s=given))
    return found


def table(item: Advice, notice: str | None = None) -> Table:
    """One method at one concurrency, a row for each draft length."""
    return Table(
        key=f"tune-{item.method}-{item.concurrency}",
        title=f"{clean(item.method)} at concurrency {item.concurrency}",
        notice=notice,
        columns=(
            Column("n"),
            Column("acceptance", "is", text=True),
            Column("acceptance length", CI),
            Column("step, ms"),
            Column("step time", "is", text=True),
            Column("output tok/s", CI),
            Column("measured"),
            Column("", text=True),
        ),
        rows=tuple(_row(item, point) for point in item.points),
    )


def sentence(item: Advice) -> str:
    """What to do, and how sure that is."""
    where = f"{clean(item.method)} at concurrency {item.concurrency}"
    if item.best is None:
        return f"{where}: no recommendation, {item.reason}"
    what = "no drafter" if item.best == 0 else f"n={item.best}"
    if item.best and item.best == max(point.n for point in item.points):
        what += " (the longest considered)"
    drift = "; one round each: a host that drifts would not be noticed" if item.rounds == 1 else ""
    if not item.tied:
        return f"{where}: {what} is the fastest, told apart from every other length on these prompts{drift}"
    others = ", ".join("no drafter" if n == 0 else f"n={n}" for n in sorted(item.tied))
    return f"{where}: {what} is the fastest by prediction; it cannot be told apart from {others}{drift}"


def _row(item: Advice, point: TunePoint) -> tuple[str, ...]:
    mark = "best" if point.n == item.best else "not told apart from the best" if point.n in item.tied else ""
    return (
        count(point.n),
        point.basis if point.n else "no drafter",
        with_interval(point.acceptance_length) if point.n else MISSING,
        milliseconds(point.step_s),
        STEP_BASIS[point.step_basis] or point.step_basis,
        _tok_s(point.output_tok_s),
        significant(point.measured_tok_s),
        mark,
    )


def _tok_s(estimate: Estimate) -> str:
    if estimate.value is None or estimate.interval is None:
        return significant(estimate.value)
    places = 0 if estimate.value >= 100 else 1
    value, low, high = (fixed(x, places) for x in (estimate.value, estimate.interval.lo, estimate.interval.hi))
    return f"{value} [{low}–{high}]"


def _same(loaded: Loaded) -> None:
    first = fingerprint(loaded[0][0])
    for run, _ in loaded[1:]:
        other = fingerprint(run)
        for name in SAME:
            if first[name] != other[name]:
                raise SpecdeckError(
                    f"this run's {name} is {other[name]}, that of {loaded[0][0].run_id} is {first[name]}",
                    where=run.run_id,
                    fix="name runs of one host, engine and prompt set",
                )
