"""Two measurements of the same thing compared: what changed, by how much, how sure. Pure; see docs/method.md.

A comparison has one effect for every arm, concurrency and metric. Ratios are candidate / base, differences
candidate − base. An effect is called better or worse only when its false discovery rate is under 5 % and the move is
larger than the noise floor that an A/A of the base showed for the same row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec.structs import replace

from specdeck.results.schema import Strict
from specdeck.stats.bootstrap import RESAMPLES
from specdeck.stats.contrast import contrast, false_discovery
from specdeck.stats.metrics import METRICS, TITLES, Metric, sides
from specdeck.stats.model import Interval, Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.stats.sample import Sample

    Samples = Mapping[tuple[str, int], Sample]

FALSE_DISCOVERY_RATE = 0.05
Verdict = Literal["worse", "better", "no change", "not known"]


class Key(Strict, frozen=True, kw_only=True):
    """Which row: a metric of an arm at a concurrency; `position` counts from 1 for acceptance by position."""

    arm: str
    concurrency: int
    metric: str
    position: int | None = None

    def __str__(self) -> str:
        at = f" {self.position}" if self.position is not None else ""
        return f"{TITLES[self.metric]}{at} of {self.arm} at concurrency {self.concurrency}"


class Effect(Strict, frozen=True, kw_only=True):
    """How one figure moved. `value` is a ratio or a difference, as `kind` says; `floor` is a move on the same scale.

    `drift` is the standard error of `value` from rounds that drift (relative for ratios), None with one round each.
    `reason` says why the verdict is "not known".
    """

    key: Key
    kind: Literal["ratio", "difference"]
    higher_is_better: bool
    base: float | None = None
    candidate: float | None = None
    value: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    q_value: float | None = None
    drift: float | None = None
    floor: float | None = None
    prompts: int = 0
    verdict: Verdict = "not known"
    reason: str | None = None


class Comparison(Strict, frozen=True, kw_only=True):
    """All effects of a candidate against a base, and what limits them."""

    effects: tuple[Effect, ...]
    notes: tuple[Note, ...]
    false_discovery_rate: float = FALSE_DISCOVERY_RATE


def compare(
    base: Samples, candidate: Samples, floors: Mapping[Key, float] | None = None, *, resamples: int = RESAMPLES
) -> Comparison:
    """Compare everything that both sides measured.

    Args:
        base: samples of the one run, by (arm, concurrency).
        candidate: samples of the other.
        floors: noise floor by row, from `noise_floors`. Without one for a row, only significance decides there.
        resamples: number of bootstrap draws.
    """
    floors = floors or {}
    effects: list[Effect] = []
    notes: list[Note] = []
    for arm, concurrency in [*base, *(key for key in candidate if key not in base)]:
        where = f"{arm} at concurrency {concurrency}"
        if (arm, concurrency) not in base or (arm, concurrency) not in candidate:
            side = "the base" if (arm, concurrency) not in base else "the candidate"
            notes.append(
                Note(code="not-measured", severity="warning", message=f"{side} has no valid cell of {where}", arm=arm)
            )
            continue
        one, other = base[arm, concurrency], candidate[arm, concurrency]
        left_out = len({*one.prompts} ^ {*other.prompts})
        if left_out:
            text = f"{where}: {left_out} prompts were answered on one side only and are in no comparison"
            notes.append(Note(code="unpaired-prompts", severity="warning", message=text, arm=arm))
        found = _effects(one, other, resamples)
        notes += _thin(found, len({*one.prompts} & {*other.prompts}), arm, where)
        effects += found
    return Comparison(effects=_judged(effects, floors), notes=tuple(notes))


def noise_floors(same: Comparison) -> dict[Key, float]:
    """How far each row may move without anything having changed, from a comparison of a run with its repetition.

    The farther end of the A/A interval: the largest move that the repetition does not rule out. Ratios: relative, so
    that 0.03 covers 1/1.03 to 1.03.
    """
    floors: dict[Key, float] = {}
    for effect in same.effects:
        if effect.interval is None:
            continue
        ends = (effect.interval.lo, effect.interval.hi)
        if effect.kind == "ratio":
            floors[effect.key] = math.exp(max(abs(math.log(end)) for end in ends)) - 1
        else:
            floors[effect.key] = max(abs(end) for end in ends)
    return floors


def size(effect: Effect) -> float | None:
    """How far the figure moved, without direction: ratios as max(r, 1/r) − 1, differences as they are."""
    if effect.value is None:
        return None
    return max(effect.value, 1 / effect.value) - 1 if effect.kind == "ratio" else abs(effect.value)


def is_worse(effect: Effect) -> bool:
    """Whether the move, however small or unsure, is in the bad direction."""
    if not size(effect):
        return False
    assert effect.value is not None
    moved_up = effect.value > (1 if effect.kind == "ratio" else 0)
    return moved_up != effect.higher_is_better


def _effects(base: Sample, candidate: Sample, resamples: int) -> list[Effect]:
    width = max(base.accepted_at.shape[2], candidate.accepted_at.shape[2])
    found = []
    for metric in METRICS:
        positions = range(1, width + 1) if metric.by_position else (None,)
        found += [_effect(metric, position, base, candidate, resamples) for position in positions]
    return [effect for effect in found if effect is not None]


def _thin(effects: Sequence[Effect], shared: int, arm: str, where: str) -> list[Note]:
    """Say which rows rest on fewer prompts than both sides answered."""
    notes = []
    for effect in effects:
        left_out = shared - effect.prompts
        if effect.value is not None and left_out and effect.key.position is None:
            text = f"{where}: {left_out} of {shared} prompts lack a {TITLES[effect.key.metric]} in some round"
            notes.append(Note(code="thin-row", severity="warning", message=text, arm=arm))
    return notes


def _effect(metric: Metric, position: int | None, base: Sample, candidate: Sample, resamples: int) -> Effect | None:
    key = Key(arm=base.arm, concurrency=base.concurrency, metric=metric.name, position=position)
    empty = Effect(key=key, kind=metric.kind, higher_is_better=metric.higher_is_better)
    paired = sides(metric, position, base, candidate)
    if paired is None:
        return None
    if isinstance(paired, str):
        return replace(empty, reason=paired)
    found = contrast(paired.base, paired.candidate, metric.statistic, resamples=resamples)
    if found is None:
        return replace(empty, reason="the figure is undefined for these prompts")
    value, interval = found.value, found.interval
    if metric.kind == "ratio":
        value = math.exp(value)
        interval = interval and replace(interval, lo=math.exp(interval.lo), hi=math.exp(interval.hi))
    return replace(
        empty,
        base=paired.base_figure,
        candidate=paired.candidate_figure,
        value=value,
        interval=interval,
        p_value=found.p_value,
        drift=found.drift,
        prompts=len(paired.base.sums),
        reason=None if found.p_value is not None else f"{len(paired.base.sums)} prompts in common are too few",
    )


def _judged(effects: Sequence[Effect], floors: Mapping[Key, float]) -> tuple[Effect, ...]:
    tested = [effect for effect in effects if effect.p_value is not None]
    adjusted = dict(
        zip(
            (effect.key for effect in tested),
            false_discovery(np.array([effect.p_value for effect in tested], dtype=np.float64)),
            strict=True,
        )
    )
    return tuple(_judge(effect, adjusted.get(effect.key), floors.get(effect.key)) for effect in effects)


def _judge(effect: Effect, q_value: float | None, floor: float | None) -> Effect:
    moved = size(effect)
    verdict: Verdict = "not known"
    if q_value is not None and moved is not None:
        sure = q_value < FALSE_DISCOVERY_RATE and _excludes_no_change(effect) and moved > (floor or 0)
        verdict = "no change" if not sure else "worse" if is_worse(effect) else "better"
    return replace(effect, q_value=None if q_value is None else float(q_value), floor=floor, verdict=verdict)


def _excludes_no_change(effect: Effect) -> bool:
    unchanged = 1 if effect.kind == "ratio" else 0
    return effect.interval is not None and not effect.interval.lo <= unchanged <= effect.interval.hi
