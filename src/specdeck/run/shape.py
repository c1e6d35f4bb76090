"""The shape of a plan's load: closed, open at one rate, in stages, or a trace; and its prompts, one a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.arrivals import arrivals
from specdeck.load.stages import Moment, Stage, read_trace, staged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from specdeck.load.prompts import Prompt
    from specdeck.recipe import Plan


@dataclass(frozen=True)
class Shape:
    """When the requests of a cell are due.

    Attributes:
        stages: of an open loop that changes; empty otherwise.
        trace: moments of a trace; empty otherwise.
        request_rate: of an open loop at one rate; None otherwise.
        burstiness: of that loop.
    """

    stages: tuple[Stage, ...] = ()
    trace: tuple[Moment, ...] = ()
    request_rate: float | None = None
    burstiness: float = 1.0

    @property
    def requests(self) -> int | None:
        """How many requests the shape itself asks for; None: one a prompt."""
        return len(self.trace) or sum(stage.requests for stage in self.stages) or None

    @property
    def seconds(self) -> float:
        """How long stages or a trace take by themselves; 0 for other shapes, whose length the prompts decide."""
        return sum(stage.duration_s for stage in self.stages) + (self.trace[-1].due_s if self.trace else 0.0)

    def moments(self, count: int, seed: int) -> tuple[Moment, ...] | None:
        """When each of `count` requests is due; None: a closed loop. All arms have the same moments in a round."""
        if self.trace:
            return self.trace
        if self.stages:
            return staged(self.stages, seed)
        if self.request_rate is None:
            return None
        return tuple(map(Moment, arrivals(count, self.request_rate, self.burstiness, seed)))


def shape_of(plan: Plan, trace: Path | None) -> Shape:
    """Make the shape of a plan, reading its trace.

    Raises:
        SpecdeckError: the trace is damaged.
    """
    return Shape(
        stages=tuple(
            Stage.of(s.request_rate, s.to_request_rate, s.burstiness, requests=s.requests, duration_s=s.duration_s)
            for s in plan.stages or ()
        ),
        trace=read_trace(trace) if trace is not None else (),
        request_rate=plan.request_rate,
        burstiness=plan.burstiness,
    )


def asked_rate(moments: Sequence[Moment]) -> float | None:
    """Requests a second that were asked for, from the first to the last; None for fewer than two or all at once."""
    span = moments[-1].due_s - moments[0].due_s if moments else 0.0
    return (len(moments) - 1) / span if span > 0 else None


def one_a_request(prompts: Sequence[Prompt], shape: Shape, *, repeat: bool, where: str) -> tuple[Prompt, ...]:
    """Bring a prompt set to the number of requests that a shape asks for, with the output budgets of a trace.

    Args:
        prompts: in the order in which they are sent.
        shape: how many, and each one's budget.
        repeat: whether prompts may be sent again when there are too few.
        where: names the set in errors.

    Raises:
        SpecdeckError: too few prompts, and `repeat` is false.
    """
    count = shape.requests
    if count is None:
        return tuple(prompts)
    if count > len(prompts) and not repeat:
        raise SpecdeckError(
            f"the load has {count} requests, the set {len(prompts)} prompts",
            where=where,
            fix="write repeat_prompts: true in the plan (a cold cell gives each repetition a cache of its own), "
            "or use a larger set with --prompts",
        )
    chosen = [prompts[i % len(prompts)] for i in range(count)]
    if not shape.trace:
        return tuple(chosen)
    return tuple(
        prompt if moment.max_tokens is None else msgspec.structs.replace(prompt, max_tokens=moment.max_tokens)
        for prompt, moment in zip(chosen, shape.trace, strict=True)
    )
