"""What limits the meaning of a cell: three witnesses (counters, per-request payloads, usage) must tell one story.

Pure: facts in, findings out. `invalid` takes a cell out of every table, `warning` is printed beside its figures.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.results.schema import Finding
from specdeck.run.payloads import audit
from specdeck.run.synthetic import missed
from specdeck.run.witnesses import missing_witnesses, near_capacity, ttft_gap, undelivered_concurrency
from specdeck.telemetry.counters import per_position_gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from specdeck.results.schema import CounterDelta, RequestRecord, Sampling
    from specdeck.telemetry.counters import Snapshot

MIN_LAG_MS = 5.0
LAG_SHARE_OF_GAP = 0.5
CLIENT_CORE_LIMIT = 0.9
SHORT_ANSWER_TOKENS = 16
RATE_TOLERANCE = 0.05
THROTTLED_SHARE = 0.05
GAP_REQUESTS = 500


@dataclass(frozen=True)
class Facts:
    """Everything the checks look at.

    Attributes:
        method: the arm's speculative method; None: the arm claims to have no drafter.
        delta: what the server counted; all None where it could not be read.
        restarted: why the counters do not belong together, when they do not.
        cache_method: see CacheState.
        client_cores: CPU seconds of the client per second of the load.
        request_rate: requests a second an open loop was asked for; None: a closed loop.
        sent_rate: requests a second that were sent.
        queue_p99_ms: from due to sent.
        gpus: see HostUse.
        ttft_mean_ms: see ClientHealth, as the following.
        client_chunks_per_s: what the client reached in its self-test.
        duration_s: of the load.
        asked_rates: see ArmInfo.
        concurrency: requests in flight that a closed loop was asked for.
        workload: see CellSpec.
    """

    method: str | None
    num_speculative_tokens: int | None
    sampling: Sampling
    records: Sequence[RequestRecord]
    before: Snapshot | None
    after: Snapshot | None
    delta: CounterDelta
    restarted: str | None
    cache_method: str | None
    loop_lag_p99_ms: float | None
    client_cores: float | None
    host_cpu_percent: float | None = None
    request_rate: float | None = None
    sent_rate: float | None = None
    queue_p99_ms: float | None = None
    gpus: Sequence[Mapping[str, float | None]] | None = None
    ttft_mean_ms: float | None = None
    server_ttft_mean_ms: float | None = None
    client_chunks_per_s: float | None = None
    duration_s: float | None = None
    concurrency: int | None = None
    workload: str | None = None
    asked_rates: Sequence[float] | None = None


def check(facts: Facts) -> list[Finding]:
    """All findings of a cell, the gravest kinds first."""
    return [
        *_server_stayed(facts),
        *_requests(facts),
        *_witnesses(facts),
        *_drafting(facts),
        *_asked(facts),
        *_cache(facts),
        *_client(facts),
        *_throttled(facts),
        *_delivery(facts),
        *_answers(facts),
    ]


def invalid(code: str, message: str) -> Finding:
    """Make a finding that takes the cell out of every table."""
    return Finding(code=code, severity="invalid", message=message)


def warning(code: str, message: str) -> Finding:
    """Make a finding that is printed beside the cell's figures."""
    return Finding(code=code, severity="warning", message=message)


def _server_stayed(facts: Facts) -> Iterable[Finding]:
    if facts.restarted:
        yield invalid("restarted", f"the server restarted during the cell: {facts.restarted}")
    before, after = facts.before, facts.after
    if before is None or after is None:
        return
    if before.models != after.models:
        yield invalid("model_changed", f"served models went from {_names(before.models)} to {_names(after.models)}")
    if before.engines != after.engines:
        yield invalid("engines_changed", f"engines went from {_names(before.engines)} to {_names(after.engines)}")


def _requests(facts: Facts) -> Iterable[Finding]:
    failed = [record for record in facts.records if record.error is not None]
    if not failed:
        return
    kinds = Counter(record.error.kind for record in failed if record.error)
    first = failed[0].error
    assert first is not None
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    yield invalid(
        "request_errors",
        f"{len(failed)} of {len(facts.records)} requests failed ({told}); the first, {failed[0].prompt_id}: "
        f"{first.message}",
    )


def _witnesses(facts: Facts) -> Iterable[Finding]:
    """Compare counters with usage and payloads. With failed requests the sums are unknown and nothing is compared."""
    gap = per_position_gap(facts.delta)
    if gap:
        yield invalid(
            "per_position_sum",
            f"the server counted {sum(facts.delta.accepted_per_pos or ())} accepted tokens by position against "
            f"{facts.delta.accepted_tokens} in all: the rates do not add up to the acceptance length",
        )
    if told := audit(facts.records, facts.num_speculative_tokens):
        yield invalid("payload_contradicts", told)
    if told := missing_witnesses(facts.before, facts.after):
        yield warning("witness_missing", told)
    if facts.restarted or any(record.error is not None for record in facts.records):
        return
    differ = [
        f"{what} {counted} against {ours}"
        for what, counted, ours in (*_usage_pairs(facts), *_payload_pairs(facts))
        if counted is not None and ours is not None and counted != ours
    ]
    if differ:
        yield invalid(
            "contaminated",
            f"the server counted something else than our requests account for ({'; '.join(differ)}): other traffic on "
            "the server, or a witness that miscounts",
        )


def _usage_pairs(facts: Facts) -> list[tuple[str, int | None, int | None]]:
    """What vLLM 0.32 counts alike on both sides, exactly.

    The prompt counter and usage both include cached tokens; an end-of-sequence token counts as generated. A request
    that is aborted adds to the token counters and to drafts, but never to the finished requests.
    """
    delta, records = facts.delta, facts.records
    return [
        ("finished requests", delta.requests_success, len(records)),
        ("prompt tokens", delta.prompt_tokens, _sum(record.prompt_tokens for record in records)),
        ("generated tokens", delta.generation_tokens, _sum(record.completion_tokens for record in records)),
    ]


def _payload_pairs(facts: Facts) -> list[tuple[str, int | None, int | None]]:
    payloads = [record.spec for record in facts.records if record.spec is not None]
    if not payloads or len(payloads) < len(facts.records):
        return []
    # Both count a verification step before stop strings and max_tokens cut it, so accepted tokens may exceed usage.
    delta = facts.delta
    pairs: list[tuple[str, int | None, int | None]] = [
        ("drafts", delta.drafts, sum(payload.num_spec_steps for payload in payloads)),
        ("draft tokens", delta.draft_tokens, sum(payload.num_draft_tokens for payload in payloads)),
        ("accepted tokens", delta.accepted_tokens, sum(payload.num_accepted_draft_tokens for payload in payloads)),
    ]
    positions = delta.accepted_per_pos or ()
    if any(len(payload.acceptance_histogram) <= len(positions) for payload in payloads):
        return pairs
    for position, counted in enumerate(positions):
        reached = sum(sum(payload.acceptance_histogram[position + 1 :]) for payload in payloads)
        pairs.append((f"tokens accepted at position {position}", counted, reached))
    return pairs


def _drafting(facts: Facts) -> Iterable[Finding]:
    delta = facts.delta
    if facts.method is None:
        if delta.drafts:
            yield invalid("unexpected_drafts", f"the arm has no drafter, but the server counted {delta.drafts} drafts")
        return
    if facts.workload == "random":
        yield warning("random_text", "the prompts are random text: acceptance here says nothing of real text")
    if delta.drafts is None:
        if facts.after is not None and not facts.restarted:
            yield warning(
                "no_draft_counters",
                "the server shows no drafting counters: acceptance is known only as far as single requests tell it",
            )
        return
    if delta.drafts == 0:
        yield invalid("no_drafts", f"the arm drafts by {facts.method}, but the server drafted nothing")
        return
    positions, wanted = delta.accepted_per_pos, facts.num_speculative_tokens
    if positions is not None and wanted is not None and len(positions) != wanted:
        yield invalid("draft_length", f"the arm drafts {wanted} tokens, the server counts {len(positions)} positions")
    tokens = delta.generation_tokens
    if tokens is not None and delta.drafts > tokens:
        yield invalid(
            "contaminated",
            f"the server counted {delta.drafts} drafts for {tokens} generated tokens: each draft yields at least one",
        )


def _asked(facts: Facts) -> Iterable[Finding]:
    if facts.asked_rates is not None and (told := missed(facts.asked_rates, facts.delta)):
        yield invalid("acceptance_not_realised", f"drafts were not accepted at the asked rates: {told}")


def _cache(facts: Facts) -> Iterable[Finding]:
    hits, queries = facts.delta.prefix_cache_hits, facts.delta.prefix_cache_queries
    if facts.cache_method is not None and hits and facts.workload not in {"shared_prefix", "multi_turn"}:
        yield warning(
            "cache_hits",
            f"{hits} of {queries} prompt tokens were prefix cache hits in a cold cell ({facts.cache_method}): its "
            "prompts share a prefix, or the server kept its cache",
        )
    if facts.delta.preemptions:
        yield warning(
            "preempted", f"the server preempted requests {facts.delta.preemptions} times: its KV pool is too small"
        )


def _client(facts: Facts) -> Iterable[Finding]:
    gap = median_gap_ms(facts.records)
    bound = max(MIN_LAG_MS, LAG_SHARE_OF_GAP * (gap or 0.0))
    lag, cores, busy = facts.loop_lag_p99_ms, facts.client_cores, facts.host_cpu_percent
    if lag is not None and lag > bound:
        yield warning(
            "client_limited",
            f"the client's event loop was {lag:.1f} ms late (p99), more than {bound:.1f} ms: its times are that rough"
            + (f"; the host's CPUs were {busy:.0f} % busy" if busy is not None else ""),
        )
    if cores is not None and cores > CLIENT_CORE_LIMIT:
        yield warning("client_limited", f"the client used {cores:.2f} of one core: it may have been the limit")
    if told := near_capacity(facts.records, facts.duration_s, facts.client_chunks_per_s):
        yield warning("client_limited", told)
    if told := ttft_gap(facts.ttft_mean_ms, facts.server_ttft_mean_ms):
        yield warning("ttft_differs", told)


def _throttled(facts: Facts) -> Iterable[Finding]:
    """A power cap is a setting and is not told; heat and the hardware's own brakes make figures that do not repeat."""
    for number, gpu in enumerate(facts.gpus or ()):
        for share, by in (
            (gpu.get("thermal_throttled_share"), "heat"),
            (gpu.get("hardware_slowed_share"), "a brake of the hardware (heat, power supply)"),
        ):
            if share is not None and share > THROTTLED_SHARE:
                yield warning(
                    "throttled", f"GPU {number} had its clocks held down by {by} in {100 * share:.0f} % of the samples"
                )
                break


def _delivery(facts: Facts) -> Iterable[Finding]:
    """Whether the load was the one asked for. Latency counts from the due moment either way."""
    if told := undelivered_concurrency(facts.records, facts.concurrency if facts.request_rate is None else None):
        yield warning("concurrency_not_delivered", told)
    asked, sent = facts.request_rate, facts.sent_rate
    if asked is None or sent is None or sent >= asked * (1 - RATE_TOLERANCE):
        return
    waited = (
        "" if facts.queue_p99_ms is None else f"; requests waited in the client up to {facts.queue_p99_ms:.0f} ms (p99)"
    )
    yield warning(
        "load_not_delivered",
        f"{asked:g} requests a second were asked for, {sent:.3g} sent; the concurrency limit held them back{waited}",
    )


def _answers(facts: Facts) -> Iterable[Finding]:
    good = [record for record in facts.records if record.error is None]
    if not good:
        return
    unknown = sum(record.completion_tokens is None for record in good)
    if unknown:
        yield invalid(
            "no_usage", f"{unknown} of {len(good)} answers came without token counts: the server sent no usage"
        )
        return
    off = [r for r in good if r.chunk_tokens is not None and sum(r.chunk_tokens) != r.completion_tokens]
    if off:
        yield warning(
            "usage_disagrees",
            f"in {len(off)} answers the chunks' tokens do not sum to the final count; the first is {off[0].prompt_id}",
        )
    tokens = [record.completion_tokens or 0 for record in good]
    early = sum((r.completion_tokens or 0) < (r.max_tokens or facts.sampling.max_tokens) for r in good)
    if facts.sampling.ignore_eos and early:
        yield warning("short_output", f"{early} of {len(good)} answers ended early although ignore_eos was asked for")
    elif statistics.median(tokens) < min(
        SHORT_ANSWER_TOKENS, statistics.median(r.max_tokens or facts.sampling.max_tokens for r in good)
    ):
        yield warning(
            "short_output",
            f"half of the answers have at most {statistics.median(tokens):g} tokens: too few for rates per token",
        )


def median_gap_ms(records: Sequence[RequestRecord]) -> float | None:
    """Median time between successive chunks of a request, in milliseconds, over evenly spaced requests of a long load.

    It sets how late the client may be; a bound on how many are looked at keeps memory flat.
    """
    gaps = [
        later - earlier
        for record in records[:: 1 + len(records) // GAP_REQUESTS]
        for earlier, later in zip(record.chunk_s, record.chunk_s[1:], strict=False)
    ]
    return 1000 * statistics.median(gaps) if gaps else None


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
