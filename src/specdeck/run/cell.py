"""One cell: an idle server, its counters, the load, an idle server, its counters, and whether they all agree."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from specdeck.load.arrivals import queue_time_p99_ms, sent_rate
from specdeck.load.loop import run_load
from specdeck.load.workers import run_workers
from specdeck.results.schema import Cell, ClientHealth, CounterDelta, Finding, LoadStage, RequestRecord, Sampling
from specdeck.run.cache import prepare_cache
from specdeck.run.idle import IDLE_TIMEOUT_S, Settled, read_metrics, wait_idle
from specdeck.run.shape import Shape, asked_rate
from specdeck.run.validity import Facts, check, invalid, warning
from specdeck.run.witnesses import mean_ttft_ms, server_mean_ttft_ms
from specdeck.telemetry.counters import RestartedError
from specdeck.telemetry.gpu import energy_j
from specdeck.telemetry.host import HostSampler, is_this_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from specdeck.load.client import Target
    from specdeck.load.prompts import Prompt
    from specdeck.results.schema import HostUse
    from specdeck.telemetry.gpu import GpuSource


@dataclass(frozen=True)
class CellSpec:
    """What a cell is.

    Attributes:
        order: place in the run, from 1.
        cache_policy: `cold` or `warm`.
        shape: when requests are due; the default is a closed loop.
        trace: sha256 of the file that a trace's moments come from.
        ramp_up_s: see run_load, as salt_repeats.
        workload: the kind of a made workload (see workloads.py), or `multi_turn`.
        workers: processes that send the load.
        method: the arm's speculative method; None: no drafter.
        asked_rates: see ArmInfo.
    """

    arm: str
    cell_id: str
    concurrency: int
    round: int
    order: int
    sampling: Sampling
    cache_policy: str = "cold"
    method: str | None = None
    num_speculative_tokens: int | None = None
    asked_rates: tuple[float, ...] | None = None
    shape: Shape = field(default_factory=Shape)
    trace: str | None = None
    ramp_up_s: float | None = None
    salt_repeats: bool = False
    workload: str | None = None
    workers: int = 1
    request_timeout_s: float = 300.0
    cell_timeout_s: float = 3600.0
    idle_timeout_s: float = IDLE_TIMEOUT_S
    client_chunks_per_s: float | None = None


@dataclass(frozen=True)
class Measured:
    """A measured cell as the store takes it."""

    cell: Cell
    records: Sequence[RequestRecord]
    before_text: str
    after_text: str


async def measure_cell(
    target: Target,
    prompts: Sequence[Prompt],
    spec: CellSpec,
    *,
    on_request: Callable[[str], None] | None = None,
    gpus: GpuSource | None = None,
) -> Measured:
    """Measure one cell.

    Whatever goes wrong with requests, counters or the server becomes a finding of the cell, not an exception.

    Args:
        target: the server, proved and warm.
        prompts: each is sent once, in this order.
        spec: arm, concurrency, sampling, limits.
        on_request: called with the prompt's id at each request's end.
        gpus: what reads GPUs during the load; None: this host's driver, if the server runs on this host.

    Raises:
        SpecdeckError: a prompt does not fit the endpoint.
    """
    settled = await wait_idle(target, timeout_s=spec.idle_timeout_s)
    cache = await prepare_cache(target, spec.cache_policy, settled.snapshot.kv_cache if settled.snapshot else None)
    if cache.method == "reset":
        again = await read_metrics(target)
        settled = Settled(again.text, again.snapshot, idle=settled.idle, reason=again.reason or settled.reason)
    moments = spec.shape.moments(len(prompts), seed=spec.round)
    started_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    own_gpus = gpus is None and await asyncio.to_thread(is_this_host, target.root_url)
    with HostSampler(gpus=gpus, own_gpus=own_gpus) as host:
        load = await (run_load if spec.workers == 1 else partial(run_workers, spec.workers))(
            target,
            prompts,
            concurrency=spec.concurrency,
            sampling=spec.sampling,
            request_timeout_s=spec.request_timeout_s,
            moments=moments,
            ramp_up_s=spec.ramp_up_s or 0.0,
            salt_repeats=spec.salt_repeats,
            cell_timeout_s=spec.cell_timeout_s,
            cache_salt=cache.salt,
            on_progress=on_request,
        )
    after = await wait_idle(target, timeout_s=spec.idle_timeout_s)
    use = host.use((load.start, load.start + load.duration_s))
    queue_p99_ms, rate = queue_time_p99_ms(load.records), sent_rate(load.records)
    delta, restarted = _delta(settled, after)
    ttft = mean_ttft_ms(load.records)
    server_ttft = None if restarted else server_mean_ttft_ms(settled.snapshot, after.snapshot, len(load.records))
    findings = [
        *_idle_findings(settled, after),
        *check(
            Facts(
                method=spec.method,
                num_speculative_tokens=spec.num_speculative_tokens,
                asked_rates=spec.asked_rates,
                sampling=spec.sampling,
                records=load.records,
                before=settled.snapshot,
                after=after.snapshot,
                delta=delta,
                restarted=restarted,
                cache_method=cache.method,
                loop_lag_p99_ms=load.loop_lag_p99_ms,
                client_cores=load.client_cpu_s / load.duration_s if load.duration_s > 0 else None,
                host_cpu_percent=use.cpu_percent,
                gpus=use.gpus,
                ttft_mean_ms=ttft,
                server_ttft_mean_ms=server_ttft,
                client_chunks_per_s=spec.workers * spec.client_chunks_per_s if spec.client_chunks_per_s else None,
                workload=spec.workload,
                duration_s=load.duration_s,
                concurrency=None if spec.ramp_up_s else spec.concurrency,
                request_rate=asked_rate(moments) if moments else None,
                sent_rate=rate,
                queue_p99_ms=queue_p99_ms,
            )
        ),
    ]
    snapshot = after.snapshot or settled.snapshot
    cell = Cell(
        cell_id=spec.cell_id,
        arm=spec.arm,
        concurrency=spec.concurrency,
        round=spec.round,
        order=spec.order,
        started_at=started_at,
        duration_s=load.duration_s,
        sampling=spec.sampling,
        cache_policy=spec.cache_policy,
        cache_method=cache.method,
        status="invalid" if any(finding.severity == "invalid" for finding in findings) else "ok",
        findings=tuple(findings),
        counters=delta,
        kv_cache=snapshot.kv_cache if snapshot else None,
        client=ClientHealth(
            loop_lag_p99_ms=load.loop_lag_p99_ms,
            requested_concurrency=spec.concurrency,
            mean_in_flight=load.mean_in_flight,
            workers=spec.workers,
            queue_p99_ms=queue_p99_ms,
            sent_rate=rate if moments else None,
            ttft_mean_ms=ttft,
            server_ttft_mean_ms=server_ttft,
        ),
        host=use,
        num_requests=len(load.records),
        num_failed=sum(record.error is not None for record in load.records),
        server_start_time=snapshot.process_start if snapshot else None,
        request_rate=spec.shape.request_rate,
        burstiness=spec.shape.burstiness if spec.shape.request_rate is not None else None,
        stages=_stages(spec.shape),
        trace=spec.trace,
        ramp_up_s=spec.ramp_up_s,
        energy_per_token_j=energy_per_token(use, load.records),
    )
    return Measured(cell, load.records, settled.text or "", after.text or "")


def energy_per_token(use: HostUse, records: Sequence[RequestRecord]) -> float | None:
    """Joules of all watched GPUs per output token.

    None without GPUs that count their energy, with a failed request (its tokens cost energy too, but are unknown), or
    without token counts.
    """
    joules = energy_j(use.gpus)
    tokens = 0
    for record in records:
        if record.error is not None or record.completion_tokens is None:
            return None
        tokens += record.completion_tokens
    return joules / tokens if joules is not None and tokens else None


def _stages(shape: Shape) -> tuple[LoadStage, ...]:
    """The stages as results keep them."""
    starts = accumulate((stage.duration_s for stage in shape.stages[:-1]), initial=0.0)
    return tuple(
        LoadStage(
            number=number,
            request_rate=stage.request_rate,
            to_request_rate=stage.to_request_rate,
            burstiness=stage.burstiness,
            requests=stage.requests,
            start_s=start,
            duration_s=stage.duration_s,
        )
        for number, (stage, start) in enumerate(zip(shape.stages, starts, strict=False), 1)
    )


def _delta(before: Settled, after: Settled) -> tuple[CounterDelta, str | None]:
    if before.snapshot is None or after.snapshot is None:
        return CounterDelta(), None
    try:
        return before.snapshot.delta(after.snapshot), None
    except RestartedError as error:
        return CounterDelta(), str(error)


def _idle_findings(before: Settled, after: Settled) -> list[Finding]:
    findings: list[Finding] = []
    for when, settled in (("before", before), ("after", after)):
        if settled.text is not None and settled.snapshot is None:
            findings.append(invalid("metrics_damaged", f"{when} the cell: {settled.reason}"))
        elif settled.snapshot is not None and not settled.idle:
            findings.append(
                invalid(f"not_idle_{when}", f"the server was not idle {when} the cell: {settled.reason or 'unknown'}")
            )
        elif settled.snapshot is not None and settled.snapshot.running is None:
            findings.append(warning("idle_unknown", f"{when} the cell: the server does not say how many requests run"))
    if before.text is None:
        findings.append(
            warning("no_metrics", f"without counters other traffic goes unseen, and acceptance too: {before.reason}")
        )
    elif after.text is None:
        findings.append(invalid("metrics_lost", f"the counters were gone after the cell: {after.reason}"))
    return findings
