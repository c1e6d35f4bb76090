"""Simulated experiments that show whether the statistics keep their word. `python -m specdeck.stats.simulation`.

Truth is known here: how often intervals contain it, how often two equal sides raise an alarm, how often a slowdown is
found. Noise has the sizes that single requests and rounds show on idle GPUs, and shapes that are worse.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from specdeck.results.schema import CounterDelta
from specdeck.stats.comparison import Comparison, Effect, compare, noise_floors
from specdeck.stats.comparison import size as move
from specdeck.stats.sample import Round, Sample

if TYPE_CHECKING:
    from numpy.random import Generator

    from specdeck.stats.bootstrap import FloatArray

RESAMPLES = 1_000
"""A tenth of what a comparison draws: the draws' own noise adds to what is simulated, never helps."""
MAX_LOSS = 0.03
"""Of throughput and TPOT in bench/gates/default.yml."""
STEP_TOKENS = 3.0
POSITIONS = 3


@dataclass(frozen=True)
class Shape:
    """One kind of noise. Standard deviations are of logarithms: 0.05 is five percent.

    Attributes:
        request: of every request by itself.
        prompt: of a prompt on one side: it got faster or slower there, in all its rounds.
        drift: of a whole round.
        heavy: requests and prompts follow Student's t with 4 degrees of freedom instead of the normal distribution.
        correlated: share of the prompts' own variance that neighbours in groups of four have in common.
    """

    name: str
    request: float = 0.07
    prompt: float = 0.03
    drift: float = 0.0
    heavy: bool = False
    correlated: float = 0.0


SHAPES = (
    Shape("normal"),
    Shape("heavy tails", heavy=True),
    Shape("drift between rounds", drift=0.01),
    Shape("correlated prompts", correlated=0.2),
    Shape("all of these", drift=0.01, heavy=True, correlated=0.2),
)


@dataclass(frozen=True)
class Size:
    """How much is measured. The defaults are those of the plan `regression`."""

    prompts: int = 40
    rounds: int = 5
    concurrency: tuple[int, ...] = (1, 8)


@dataclass(frozen=True)
class Result:
    """What was simulated, in shares.

    Attributes:
        coverage: of intervals that contain the truth.
        false_alarms: of experiments in which any row of an equal candidate is called worse.
        row: of throughput rows of the slower candidate, each by itself, that are found.
        every: of experiments in which the throughput of every concurrency is found.
        build: of experiments in which output tok/s or TPOT is found at any concurrency, so that the build fails.
    """

    coverage: float
    false_alarms: float
    row: float
    every: float
    build: float


def simulate(
    shape: Shape, *, experiments: int, size: Size | None = None, slowdown: float = 0.05, seed: int = 1
) -> Result:
    """Run experiments of one shape: an A/A for the floor, an equal candidate, and one slower by `slowdown`.

    Coverage counts the intervals of the slower candidate's output tok/s, TPOT and acceptance length. A row is found
    when it fails the gate of bench/gates/default.yml: called worse, and by more than MAX_LOSS.
    """
    size = size or Size()
    generator = np.random.default_rng(seed)
    covered = intervals = alarms = rows = every = build = 0
    for _ in range(experiments):
        prompts = _prompts(generator, size, shape)
        base = _run(generator, shape, size, prompts, 1.0)
        floors = noise_floors(compare(base, _run(generator, shape, size, prompts, 1.0), resamples=RESAMPLES))
        same = compare(base, _run(generator, shape, size, prompts, 1.0), floors, resamples=RESAMPLES)
        slower = compare(base, _run(generator, shape, size, prompts, 1 + slowdown), floors, resamples=RESAMPLES)
        alarms += any(effect.verdict == "worse" for effect in same.effects)
        rates = [_found(effect) for effect in slower.effects if effect.key.metric == "output_tok_s"]
        rows += sum(rates)
        every += all(rates)
        build += any(_found(effect) for effect in slower.effects if effect.key.metric in ("output_tok_s", "tpot_s"))
        inside, counted = _covered(slower, slowdown)
        covered += inside
        intervals += counted
    return Result(
        coverage=covered / intervals,
        false_alarms=alarms / experiments,
        row=rows / (experiments * len(size.concurrency)),
        every=every / experiments,
        build=build / experiments,
    )


def _found(effect: Effect) -> bool:
    return effect.verdict == "worse" and (move(effect) or 0) > MAX_LOSS


def _covered(slower: Comparison, slowdown: float) -> tuple[int, int]:
    truth = {"output_tok_s": 1 / (1 + slowdown), "tpot_s": 1 + slowdown, "acceptance_length": 0.0}
    inside = counted = 0
    for effect in slower.effects:
        if effect.key.metric in truth:
            assert effect.interval is not None
            counted += 1
            inside += effect.interval.lo <= truth[effect.key.metric] <= effect.interval.hi
    return inside, counted


def _prompts(generator: Generator, size: Size, shape: Shape) -> FloatArray:
    """Rows: tokens a prompt generates, its acceptance by position."""
    tokens = generator.integers(100, 257, size.prompts).astype(np.float64)
    keep = np.clip(generator.normal(0.7, 0.1, size.prompts), 0.2, 0.95)
    return np.stack([tokens, keep])


def _run(
    generator: Generator, shape: Shape, size: Size, prompts: FloatArray, slower: float
) -> dict[tuple[str, int], Sample]:
    return {("arm", at): _sample(generator, shape, size, prompts, slower, at) for at in size.concurrency}


def _sample(
    generator: Generator, shape: Shape, size: Size, prompts: FloatArray, slower: float, concurrency: int
) -> Sample:
    grid = (size.prompts, size.rounds)
    tokens = np.repeat(prompts[0][:, None], size.rounds, axis=1)
    own = _noise(generator, shape, (size.prompts, 1))
    group = np.repeat(_noise(generator, shape, (-(-size.prompts // 4), 1)), 4, axis=0)[: size.prompts]
    own = shape.prompt * (np.sqrt(1 - shape.correlated) * own + np.sqrt(shape.correlated) * group)
    drift = shape.drift * generator.standard_normal((1, size.rounds))
    times = [
        seconds * slower * np.exp(own + drift + shape.request * _noise(generator, shape, grid))
        for seconds in (0.01, 0.2)
    ]
    e2e = times[0] * tokens + times[1]
    steps = np.ceil(tokens / STEP_TOKENS)
    chain = [generator.binomial(steps.astype(int), np.repeat(prompts[1][:, None], size.rounds, axis=1))]
    for _ in range(POSITIONS - 1):
        chain.append(generator.binomial(chain[-1], prompts[1][:, None]))
    accepted_at = np.stack(chain, axis=2).astype(np.float64)
    ones = np.ones(grid)
    rounds = tuple(
        Round(
            round=i + 1,
            duration_s=float(e2e[:, i].sum() / concurrency),
            tokens=int(tokens[:, i].sum()),
            requests=size.prompts,
            failed=0,
            counters=CounterDelta(drafts=int(steps[:, i].sum())),
        )
        for i in range(size.rounds)
    )
    sums = {
        "requests": ones, "tokens": tokens, "e2e_s": e2e, "ttft_n": ones, "ttft_log": np.log(times[1]),
        "tpot_n": ones, "tpot_log": np.log(times[0]), "steps": steps, "accepted": accepted_at.sum(axis=2),
    }  # fmt: skip
    names = tuple(f"p{i:03d}" for i in range(size.prompts))
    return Sample("arm", concurrency, names, rounds, sums, accepted_at)


def _noise(generator: Generator, shape: Shape, size: tuple[int, int]) -> FloatArray:
    """Unit variance."""
    return generator.standard_t(4, size) / np.sqrt(2) if shape.heavy else generator.standard_normal(size)


def table(experiments: int, seed: int = 1) -> str:
    """All shapes as a Markdown table, computed by as many processes as there are cores for it."""
    lines = [
        "| noise | intervals that contain the truth | A/A with an alarm | 5 % slowdown: a row by itself | "
        "every concurrency | build fails |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = pool.map(partial(simulate, experiments=experiments, seed=seed), SHAPES)
        for shape, found in zip(SHAPES, results, strict=True):
            values = (found.coverage, found.false_alarms, found.row, found.every, found.build)
            lines.append(f"| {shape.name} | {' | '.join(f'{100 * share:.1f} %' for share in values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))  # noqa: T201 - it is a command
