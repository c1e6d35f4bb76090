"""The versioned result contract: what one request, one cell and one run leave behind.

Times inside a cell are seconds since the cell's start on one monotonic clock. Not available is None, never 0.
Every field a report may use is here; a field is never reused with another meaning (raise SCHEMA_VERSION instead).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

AcceptanceKind = Literal["measured", "synthetic"]
"""`synthetic`: the server accepted drafts at asked rates, whatever they said. Its texts and acceptance mean nothing."""


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """Base of all records: immutable, keyword-only, unknown keys refused."""


class SpecPayload(Strict, frozen=True, kw_only=True):
    """One request's `metrics.speculative_decoding` as vLLM sends it (`--per-request-spec-decode-metrics`)."""

    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int | None = None
    acceptance_histogram: tuple[int, ...] = ()
    per_step_accepted: tuple[int, ...] | None = None
    per_step_drafted: tuple[int, ...] | None = None


class RequestError(Strict, frozen=True, kw_only=True):
    """Why a request has no complete answer. `kind` is a closed vocabulary so that errors can be counted."""

    kind: Literal["connect", "timeout", "http", "stream", "protocol", "server", "cancelled"]
    message: str
    status: int | None = None


class RequestRecord(Strict, frozen=True, kw_only=True):
    """One measured request. `chunk_s[i]` is when chunk i arrived, `chunk_tokens[i]` how many tokens it carried.

    Chunks are those that carry text or tokens: no role chunk, no usage-only chunk. `text_sha256` is of `text`, or of
    `reasoning`, a NUL and `text` where there was reasoning, so that equal hashes mean equal answers. `stage` counts from 1
    (None: the load has no stages); `max_tokens` is the request's own output budget (None: the cell's).
    """

    request_id: str
    index: int
    stage: int | None = None
    max_tokens: int | None = None
    prompt_id: str
    category: str
    scheduled_s: float
    sent_s: float | None = None
    first_token_s: float | None = None
    first_content_s: float | None = None
    last_token_s: float | None = None
    end_s: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    chunk_s: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    finish_reason: str | None = None
    text: str = ""
    reasoning: str = ""
    text_sha256: str | None = None
    spec: SpecPayload | None = None
    error: RequestError | None = None


class LoadStage(Strict, frozen=True, kw_only=True):
    """A stage of an open loop as it was asked for: rates at both ends, and when it was to begin and end."""

    number: int
    request_rate: float
    to_request_rate: float
    burstiness: float
    requests: int
    start_s: float
    duration_s: float


class CounterDelta(Strict, frozen=True, kw_only=True):
    """What the server counted during a cell, summed over engines, for one model. None: series absent."""

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_pos: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    preemptions: int | None = None
    requests_success: int | None = None


class KvCache(Strict, frozen=True, kw_only=True):
    """The pool as `vllm:cache_config_info` reports it.

    `size_tokens` is the engine's own figure: on hybrid models it is less than blocks × block size.
    """

    size_tokens: int | None = None
    block_size: int | None = None
    num_gpu_blocks: int | None = None
    num_cpu_blocks: int | None = None
    enable_prefix_caching: bool | None = None
    cache_dtype: str | None = None


class Finding(Strict, frozen=True, kw_only=True):
    """Something that limits what a cell's figures mean. `invalid` findings take the cell out of every table."""

    code: str
    severity: Literal["invalid", "warning"]
    message: str


class Sampling(Strict, frozen=True, kw_only=True):
    """Sampling parameters, always sent explicitly."""

    temperature: float
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int
    ignore_eos: bool = False
    enable_thinking: bool | None = None


class HostUse(Strict, frozen=True, kw_only=True):
    """Host use during the cell: mean of samples, in percent of all cores; GPU figures per device when present.

    Of each GPU: `power_w`, `energy_j` (used up during the load), `util_percent`, `sm_clock_mhz`, `memory_used_mib`,
    `temperature_c`, and the shares of samples, 0 to 1, in which clocks were held down: `power_capped_share`,
    `thermal_throttled_share`, `hardware_slowed_share`.
    """

    cpu_percent: float | None = None
    client_cpu_percent: float | None = None
    load_average_1m: float | None = None
    gpus: tuple[dict[str, float | None], ...] | None = None


class ClientHealth(Strict, frozen=True, kw_only=True):
    """Whether the client could have been the limit.

    `queue_p99_ms`: from when a request was due to when it was sent. `sent_rate`: requests a second, open loop only.
    `workers`: processes that sent the load; the lag is the worst one's.
    `ttft_mean_ms` is from sent to the first token here, `server_ttft_mean_ms` the server's own histogram's mean over
    the same requests; both None where a request failed or the server counted others too.
    """

    loop_lag_p99_ms: float | None = None
    requested_concurrency: int
    mean_in_flight: float | None = None
    queue_p99_ms: float | None = None
    sent_rate: float | None = None
    ttft_mean_ms: float | None = None
    server_ttft_mean_ms: float | None = None
    workers: int = 1


class Cell(Strict, frozen=True, kw_only=True):
    """One arm at one concurrency in one round.

    `request_rate` and `burstiness`: an open loop's (None: closed), with `concurrency` the most in flight.
    `stages`: of a load in steps and ramps; `trace`: the sha256 of the moments' file; `ramp_up_s`: a closed loop whose
    slots began one after another. In the first two `request_rate` is None: see each request's `scheduled_s`.
    `energy_per_token_j`: joules of all GPUs that were watched per output token; None where one counts no energy.
    `cache_method`: how `cache_policy: cold` was reached (None: warm); `disabled`: the server has no prefix cache.
    """

    schema_version: int = SCHEMA_VERSION
    cell_id: str
    arm: str
    concurrency: int
    round: int
    order: int
    started_at: str
    duration_s: float
    sampling: Sampling
    cache_policy: str
    cache_method: Literal["reset", "salt", "disabled"] | None = None
    status: Literal["ok", "invalid"]
    findings: tuple[Finding, ...] = ()
    counters: CounterDelta
    kv_cache: KvCache | None = None
    client: ClientHealth
    host: HostUse
    num_requests: int
    num_failed: int
    server_start_time: float | None = None
    request_rate: float | None = None
    burstiness: float | None = None
    energy_per_token_j: float | None = None
    stages: tuple[LoadStage, ...] = ()
    trace: str | None = None
    ramp_up_s: float | None = None


class ArmInfo(Strict, frozen=True, kw_only=True):
    """What an arm is and how it was served; `readiness` is the proof that it was that.

    `asked_rates`: in a run of synthetic acceptance, the share of drafts whose token i the server was told to accept.
    """

    name: str
    method: str | None = None
    num_speculative_tokens: int | None = None
    command: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    readiness: dict[str, Any] = msgspec.field(default_factory=dict)
    unavailable: str | None = None
    asked_rates: tuple[float, ...] | None = None


class Run(Strict, frozen=True, kw_only=True):
    """A whole experiment: resolved recipe and plan, provenance, arms, and how far it got."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    fingerprint: str
    created_at: str
    finished_at: str | None = None
    status: Literal["running", "complete", "partial"]
    recipe_name: str
    recipe: dict[str, Any]
    recipe_sha256: str
    plan_name: str
    plan: dict[str, Any]
    plan_sha256: str
    prompts_file: str
    prompts_sha256: str
    num_prompts: int
    device: Literal["cpu", "cuda", "unknown"]
    baseline_arm: str | None
    arms: dict[str, ArmInfo]
    provenance: dict[str, Any]
    acceptance_kind: AcceptanceKind = "measured"
