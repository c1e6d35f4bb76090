"""The experiment: every cell of a plan measured in order, stored as it ends, resumable at any point."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.load.conversation import turns_of
from specdeck.load.workers import worker_count
from specdeck.recipe import canonical_sha256
from specdeck.recipe.synthetic import is_synthetic
from specdeck.results.schema import ArmInfo, Run
from specdeck.results.store import RunStore
from specdeck.run import provenance
from specdeck.run.alive import how_it_ended
from specdeck.run.cell import CellSpec, measure_cell
from specdeck.run.options import sha256_file
from specdeck.run.schedule import CellKey, schedule
from specdeck.run.selftest import SELF_TEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from specdeck.run.options import Options
    from specdeck.run.progress import Reporter
    from specdeck.run.selftest import SelfTest
    from specdeck.run.servers import Served, Servers
    from specdeck.telemetry.gpu import GpuSource


@dataclass
class Outcome:
    """What became of an experiment. `failures` names arms that could not be measured to the end, and why."""

    failures: dict[str, SpecdeckError] = field(default_factory=dict)
    measured: int = 0
    skipped: int = 0
    invalid: int = 0


def open_store(options: Options, results: Path, *, fresh: bool, reporter: Reporter) -> RunStore:
    """Continue the unfinished run of the same experiment, or create one.

    Two starts are the same experiment when recipe, plan, prompts, git state and host are equal.
    """
    found = provenance.collect(options.root)
    fingerprint = options.fingerprint(found)
    previous = None if fresh else RunStore.find_resumable(results, fingerprint)
    if previous is not None:
        run = previous.run()
        reporter.line(f"continuing {run.run_id}: {len(previous.cells())} cells are there already")
        return previous
    now = dt.datetime.now(dt.UTC)
    recipe = options.recipe
    run = Run(
        run_id=f"{options.recipe_name}-{options.plan.name}-{now:%Y%m%d-%H%M%S}",
        fingerprint=fingerprint,
        created_at=now.isoformat(timespec="seconds"),
        status="running",
        recipe_name=options.recipe_name,
        recipe=recipe.model_dump(mode="json", exclude_none=True) if recipe else {},
        recipe_sha256=canonical_sha256(recipe) if recipe else "",
        plan_name=options.plan.name,
        plan=_shown_plan(options),
        plan_sha256=canonical_sha256(options.plan),
        prompts_file=provenance.without_root(str(options.prompts_path), options.root),
        prompts_sha256=sha256_file(options.prompts_path),
        num_prompts=len({prompt.id for prompt in turns_of(options.prompts)[0]}),
        device=recipe.hardware.device if recipe else "unknown",
        baseline_arm=options.plan.baseline if options.plan.baseline in options.arms else None,
        arms={name: _unavailable_arm(options, name) for name in options.unavailable},
        provenance=found,
        acceptance_kind="synthetic" if is_synthetic(recipe, options.arms) else "measured",
    )
    return RunStore.create(results, run)


async def run_experiment(
    options: Options,
    store: RunStore,
    servers: Servers,
    reporter: Reporter,
    *,
    gpus: GpuSource | None = None,
    self_test: Callable[[], Awaitable[SelfTest]] | None = None,
) -> Outcome:
    """Measure every cell that is not stored yet.

    An arm that fails is dropped and the others go on. Servers are stopped on every way out.

    Args:
        options: what is measured.
        store: where each cell goes as it ends.
        servers: where each arm's server comes from.
        reporter: told what happens.
        gpus: what reads GPUs during a cell; None: this host's driver.
        self_test: measures the client itself before the first cell (see selftest.py); None: nothing is known of it.

    Raises:
        SpecdeckError: a result could not be stored (the disk is full, say). What was stored stays.
    """
    run, outcome = store.run(), Outcome()
    keys = [
        key
        for key in schedule(options.arms, options.plan.concurrency, options.plan.rounds)
        if not store.has_cell(key.arm, key.cell_id)
    ]
    run = await _with_self_test(run, self_test if keys else None, reporter)
    store.save_run(run)
    reporter.begin(len(keys) * len(turns_of(options.prompts)[0]))
    try:
        for key in keys:
            if key.arm in outcome.failures:
                outcome.skipped += 1
                continue
            try:
                served = await servers.get(key.arm)
            except SpecdeckError as error:
                outcome.failures[key.arm] = error
                reporter.line(f"{key.arm}: failed: {error.what.splitlines()[0]}")
                outcome.skipped += 1
                continue
            if run.arms.get(key.arm) != served.info:
                run = msgspec.structs.replace(run, arms={**run.arms, key.arm: served.info})
                store.save_run(run)
            await _measure(options, store, served, key, reporter, outcome, gpus)
    finally:
        await servers.stop()
    store.save_run(
        msgspec.structs.replace(
            run,
            status="partial" if outcome.failures else "complete",
            finished_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        )
    )
    return outcome


async def _with_self_test(run: Run, self_test: Callable[[], Awaitable[SelfTest]] | None, reporter: Reporter) -> Run:
    """Try the client, and keep what it can do with the run. A client that cannot be tried is told and measures on."""
    if self_test is None or SELF_TEST in run.provenance:
        return run
    try:
        found = await self_test()
    except SpecdeckError as error:
        reporter.line(f"the client could not be tried on this machine: {error.what.splitlines()[0]}")
        return run
    reporter.line(f"client: {found.line()}")
    return msgspec.structs.replace(run, provenance={**run.provenance, SELF_TEST: msgspec.to_builtins(found)})


async def _measure(
    options: Options,
    store: RunStore,
    served: Served,
    key: CellKey,
    reporter: Reporter,
    outcome: Outcome,
    gpus: GpuSource | None,
) -> None:
    plan, info = options.plan, served.info
    label = f"{key.arm} {key.cell_id}"
    spec = CellSpec(
        arm=key.arm,
        cell_id=key.cell_id,
        concurrency=key.concurrency,
        round=key.round,
        order=key.order,
        sampling=options.sampling,
        cache_policy=plan.cache_policy,
        shape=options.shape,
        trace=sha256_file(options.trace_path) if options.trace_path else None,
        ramp_up_s=plan.ramp_up_s,
        workers=worker_count(plan.workers, min(key.concurrency, len(options.prompts))),
        workload="multi_turn" if plan.multi_turn else plan.workload.kind if plan.workload else None,
        salt_repeats=plan.repeat_prompts and plan.cache_policy == "cold",
        method=info.method,
        num_speculative_tokens=info.num_speculative_tokens,
        asked_rates=info.asked_rates,
        request_timeout_s=plan.request_timeout_s,
        cell_timeout_s=plan.cell_timeout_s,
        client_chunks_per_s=(store.run().provenance.get(SELF_TEST) or {}).get("chunks_per_s"),
    )
    measured = await measure_cell(
        served.target, options.prompts, spec, on_request=lambda _record: reporter.request_done(label), gpus=gpus
    )
    ended = await how_it_ended(served, measured)
    if ended is not None:
        error = SpecdeckError(
            f"arm {key.arm}: {ended} while {label} was measured; that cell is not kept\n"
            + "\n".join(f"  | {line}" for line in served.server.last_log(30)),
            where=str(served.server.log_path) if served.server.log_path else served.target.base_url,
            fix="read the log above, correct the recipe, then run the same command again: finished cells are kept",
            exit_code=EXIT_FAILED,
        )
        outcome.failures[key.arm] = error
        reporter.line(f"{key.arm}: failed: {error.what.splitlines()[0]}")
        return
    store.write_cell(measured.cell, measured.records, measured.before_text, measured.after_text)
    outcome.measured += 1
    outcome.invalid += measured.cell.status == "invalid"
    reporter.line(_cell_line(label, measured.cell.duration_s, measured.records, measured.cell.findings))


def _shown_plan(options: Options) -> dict[str, Any]:
    """The plan as results keep it: a trace's path without the folders of whoever measured."""
    shown: dict[str, Any] = options.plan.model_dump(mode="json", exclude_none=True)
    if options.plan.trace is not None:
        shown["trace"] = provenance.without_root(options.plan.trace, options.root)
    return shown


def _unavailable_arm(options: Options, name: str) -> ArmInfo:
    assert options.recipe is not None
    arm = options.recipe.arms[name]
    return ArmInfo(
        name=name,
        method=arm.method,
        num_speculative_tokens=arm.num_speculative_tokens,
        unavailable=options.unavailable[name],
    )


def _cell_line(label: str, duration_s: float, records: Sequence[Any], findings: Sequence[Any]) -> str:
    tokens = sum(record.completion_tokens or 0 for record in records if record.error is None)
    text = f"{label}: {len(records)} requests, {tokens} tokens, {duration_s:.1f} s"
    marks = [f"{finding.severity} {finding.code}: {finding.message}" for finding in findings]
    return "\n".join([text, *(f"    {mark}" for mark in marks)])
