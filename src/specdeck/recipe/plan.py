"""What a plan may say: which arms are measured, at which concurrencies, how often, and how each request samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from specdeck.recipe.models import Name, Part, Positive

Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


Milliseconds = Annotated[float, Field(gt=0, le=86_400_000)]


class Goodput(Part):
    """Limits that a request must meet to count as good, in milliseconds. An absent one does not count."""

    ttft: Milliseconds | None = None
    """From when the request was due to its first token."""
    tpot: Milliseconds | None = None
    """Time per output token after the first."""
    e2el: Milliseconds | None = None
    """From when the request was due to its end."""


Rate = Annotated[float, Field(gt=0, le=1_000_000)]


class LoadStage(Part):
    """A part of an open loop with a rate of its own. Its budget is either `requests` or `duration_s`."""

    request_rate: Rate
    """Requests a second at its start."""
    to_request_rate: Rate | None = None
    """A ramp: requests a second at its end, with a linear change in between."""
    burstiness: Rate = 1.0
    requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    duration_s: Seconds | None = None


class Workload(Part):
    """Prompts made of the prompt set (see docs/workloads.md). `words` are words, not tokens."""

    kind: Literal["random", "shared_prefix", "long_context"]
    words: Annotated[int, Field(ge=1, le=1_000_000)]
    groups: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Of `shared_prefix`: how many different prefixes."""
    seed: int = 0
    with_drafters: bool = False
    """Of `random`: measure arms that draft all the same. Acceptance on random text says nothing about real text."""


class Plan(Part):
    """A matrix of cells: arms times concurrencies times rounds, on one prompt set."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    arms: Annotated[tuple[str, ...], Field(min_length=1)]
    baseline: str | None = "none"
    """The arm that ratios refer to. A plan that does not measure it has no ratios."""
    prompts: Name | None = None
    """A file of bench/prompts without `.jsonl`. Absent: the recipe's."""
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that send the load. `auto`: one for each 256 requests in flight, leaving one core to the rest."""
    multi_turn: bool = False
    """Send a prompt's `follow_ups` too, each after the answer to the one before, with all that was said as history."""
    workload: Workload | None = None
    """What the prompt set is made into before it is sent."""
    limit: Positive | None = None
    """Use only so many prompts, categories in turn."""
    concurrency: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1, max_length=32)]
    """Requests in flight: all the time in a closed loop, at most with `request_rate`."""
    request_rate: Rate | None = None
    """Open loop: requests a second, sent when they are due whatever became of the others. Absent: closed loop."""
    burstiness: Rate = 1.0
    """Shape of the gaps between requests with `request_rate`: 1 Poisson, less burstier, 1e6 equal distances."""
    stages: Annotated[tuple[LoadStage, ...], Field(min_length=1, max_length=100)] | None = None
    """Open loop in steps and ramps, one after another, instead of `request_rate`."""
    trace: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    """Open loop from a JSONL file of moments (`timestamp` in ms, `output_length`), instead of `request_rate`."""
    repeat_prompts: bool = False
    """Send prompts again when stages or a trace ask for more requests than the set has."""
    ramp_up_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Closed loop: start the slots one after another over this time instead of all at once."""
    rounds: Annotated[int, Field(ge=1, le=100)] = 1
    """Repetitions of every cell; the order of arms is rotated from round to round."""
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    """Output budget of each request, in tokens."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    """-1: no limit."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: int | None = None
    enable_thinking: bool | None = None
    """Sent to the chat template; absent: the template's own default, which results then show as null."""
    goodput: Goodput | None = None
    """Also report how many requests a second met these limits."""
    warmup_requests: Annotated[int, Field(ge=0, le=10_000)] = 4
    """Requests before each server's first cell; never measured, never a measured prompt."""
    cache_policy: Literal["cold", "warm"] = "cold"
    """`cold`: every cell starts with an empty prefix cache. `warm`: the cache is left as it is."""
    order: Literal["rotate", "fixed"] = "rotate"
    request_timeout_s: Seconds = 300.0
    cell_timeout_s: Seconds = 3600.0
    endpoint: Literal["chat", "completions"] = "chat"
    ignore_eos: bool = False
    """Generate the whole budget even where the model would stop."""
