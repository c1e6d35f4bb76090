"""What a summary says: estimates with their intervals, one row an arm and concurrency, and what limits them.

Times are seconds, rates fractions of 1, throughput tokens a second. Not available is None, never 0. See docs/method.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from specdeck.results.quality import CheckResult  # noqa: TC001 - msgspec reads the annotations
from specdeck.results.schema import AcceptanceKind, Strict

SUMMARY_VERSION = 1

CPU_NOTICE = "CPU engine: does not predict a GPU"
UNKNOWN_DEVICE_NOTICE = "device not known: holds for this server only"


class Interval(Strict, frozen=True, kw_only=True):
    """A 95 % interval over prompts: what other prompts of the same kind would have given. `prompts` is its n."""

    lo: float
    hi: float
    prompts: int
    level: float


class Spread(Strict, frozen=True, kw_only=True):
    """Smallest and largest of the rounds, each round alone."""

    min: float
    max: float
    rounds: int


class Estimate(Strict, frozen=True, kw_only=True):
    """A figure with what is known about its uncertainty."""

    value: float | None = None
    interval: Interval | None = None
    spread: Spread | None = None


class Quantiles(Strict, frozen=True, kw_only=True):
    """Median and 99th percentile of n values. With fewer than 100 the p99 is close to the largest value."""

    n: int
    p50: float | None = None
    p50_interval: Interval | None = None
    p99: float | None = None
    p99_near_max: bool = False


class Acceptance(Strict, frozen=True, kw_only=True):
    """How much of the drafts was accepted, by the server's counters and by the per-request payloads.

    `length` is the counters' figure (the payloads' where there are no counters) with the payloads' interval.
    """

    length: Estimate
    length_from_counters: float | None = None
    length_from_payloads: float | None = None
    draft_acceptance_rate: float | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    requests_with_payload: int = 0


class Position(Strict, frozen=True, kw_only=True):
    """Draft position `position` (from 1): share of drafts in which it was accepted."""

    position: int
    rate: Estimate


class Goodput(Strict, frozen=True, kw_only=True):
    """Requests that met the plan's limits: how many of all that were to be sent, and how many a second."""

    good: int
    requests: int
    share: Estimate
    req_s: float | None


class Row(Strict, frozen=True, kw_only=True):
    """One arm at one concurrency, pooled over its valid rounds. `ratio` is None for the baseline itself.

    `itl_s` is a value a token, `inter_chunk_s` a value a chunk; `peak_output_tok_s` is the best second of any round.
    `break_even` is the acceptance length from which the arm decodes faster than the baseline (see steps.py); None where
    nothing drafts in the arm, or something does in the baseline.
    """

    arm: str
    concurrency: int
    rounds: int
    requests: int
    failed: int
    prompts: int
    duration_s: float
    completion_tokens: int | None
    mean_completion_tokens: float | None
    output_tok_s: Estimate
    ratio: Estimate | None
    acceptance: Acceptance
    ttft_s: Quantiles
    tpot_s: Quantiles
    inter_chunk_s: Quantiles
    e2e_s: Quantiles
    decode_tok_s: Quantiles
    prefix_hit_rate: float | None
    itl_s: Quantiles = Quantiles(n=0)
    peak_output_tok_s: float | None = None
    goodput: Goodput | None = None
    step_s: Estimate = Estimate()
    break_even: Estimate | None = None


class StageRow(Strict, frozen=True, kw_only=True):
    """The requests of one arm that were due in one stage of an open loop, over all rounds (see stages.py)."""

    arm: str
    concurrency: int
    stage: int
    request_rate: float
    to_request_rate: float
    requests: int
    failed: int
    output_tok_s: float | None
    ttft_s: Quantiles
    tpot_s: Quantiles
    queue_p99_ms: float | None
    acceptance_length: Estimate
    goodput: Goodput | None = None


class Knee(Strict, frozen=True, kw_only=True):
    """Where an arm's output tok/s stops growing with concurrency (see knee.py)."""

    arm: str
    concurrency: int
    bounded: bool
    output_tok_s: float
    peak_output_tok_s: float
    peak_concurrency: int
    within_limits: int | None = None


class ArmSummary(Strict, frozen=True, kw_only=True):
    """One arm over all its valid cells, whatever their concurrency. `asked_rates`: see ArmInfo."""

    name: str
    method: str | None
    num_speculative_tokens: int | None
    cells: int
    requests: int
    prompts: int
    acceptance: Acceptance
    positions: tuple[Position, ...]
    unavailable: str | None = None
    asked_rates: tuple[float, ...] | None = None


class RequestRate(Strict, frozen=True, kw_only=True):
    """Tokens a second of one request's own time at one concurrency: sum of tokens / sum of end-to-end times."""

    concurrency: int
    tok_s: float | None


class CategoryRow(Strict, frozen=True, kw_only=True):
    """One arm on one category of prompts. Acceptance comes from the payloads: counters do not know categories."""

    arm: str
    category: str
    requests: int
    prompts: int
    acceptance_length: Estimate
    draft_acceptance_rate: float | None
    request_tok_s: tuple[RequestRate, ...]


class Difference(Strict, frozen=True, kw_only=True):
    """A text that differs from the baseline's; `first_difference` is the index of the first differing character."""

    prompt_id: str
    concurrency: int
    round: int
    first_difference: int | None


class EqualText(Strict, frozen=True, kw_only=True):
    """How many texts of an arm equal the baseline's for the same prompt, round and concurrency."""

    arm: str
    compared: int
    equal: int
    share: float | None
    differences: tuple[Difference, ...]


class Distribution(Strict, frozen=True, kw_only=True):
    """Equally spaced quantiles (the smallest to the largest) of n requests' times, in seconds."""

    arm: str
    concurrency: int
    metric: str
    n: int
    quantiles: tuple[float, ...]


class Span(Strict, frozen=True, kw_only=True):
    """When a cell was measured: seconds from the start of the run's first cell, valid or not."""

    arm: str
    cell_id: str
    concurrency: int
    round: int
    start_s: float
    duration_s: float
    valid: bool


class Note(Strict, frozen=True, kw_only=True):
    """A finding about a cell (`cell_id`), an arm, or the whole run (both None)."""

    code: str
    severity: Literal["invalid", "warning"]
    message: str
    arm: str | None = None
    cell_id: str | None = None


class Summary(Strict, frozen=True, kw_only=True):
    """Everything a report says about one run. `quality`: the checks that lie beside it, without their details."""

    schema_version: int = SUMMARY_VERSION
    run_id: str
    run_status: str
    created_at: str
    recipe: str
    plan: str
    device: str
    throughput_notice: str | None
    baseline: str | None
    planned_prompts: int
    temperature: float | None
    max_tokens: int | None
    cache_policy: str | None
    arms: tuple[ArmSummary, ...]
    rows: tuple[Row, ...]
    categories: tuple[CategoryRow, ...]
    equal_text: tuple[EqualText, ...]
    excluded_cells: int
    findings: tuple[Note, ...]
    resamples: int
    seed: int
    distributions: tuple[Distribution, ...] = ()
    timeline: tuple[Span, ...] = ()
    stages: tuple[StageRow, ...] = ()
    knees: tuple[Knee, ...] = ()
    goodput_limits_ms: dict[str, float] = msgspec.field(default_factory=dict)
    acceptance_kind: AcceptanceKind = "measured"
    quality: tuple[CheckResult, ...] = ()
