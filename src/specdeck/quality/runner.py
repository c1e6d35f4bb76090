"""Makes checks on arms: the baseline first, each observation stored as it is made, every verdict written at once.

What is stored is not observed again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from specdeck.errors import EXIT_FAILED, EXIT_OK, EXIT_UNMEASURABLE, SpecdeckError
from specdeck.quality.asking import Asker, AskError
from specdeck.quality.check import BASELINE, NOT_APPLICABLE, Job, NotApplicable, failure, not_applicable
from specdeck.results.atomic import replace_file, storing
from specdeck.results.quality import QUALITY_FOLDER, CheckResult, write_check
from specdeck.results.reading import checked_name, read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from specdeck.quality.check import Check
    from specdeck.results.schema import ArmInfo
    from specdeck.results.store import RunStore
    from specdeck.run.options import Options
    from specdeck.run.progress import Reporter
    from specdeck.run.servers import Served, Servers

SEEN_FOLDER = "seen"


@dataclass
class Outcome:
    """Every result, and arms that could not be served."""

    results: list[CheckResult] = field(default_factory=list)
    failures: dict[str, SpecdeckError] = field(default_factory=dict)

    def exit_code(self) -> int:
        """1 when anything failed, 2 when anything could not be measured that should have been, else 0."""
        if any(result.verdict == "fail" for result in self.results):
            return EXIT_FAILED
        if self.failures:
            return min(error.exit_code for error in self.failures.values())
        missing = [r for r in self.results if r.verdict == "unmeasurable" and not r.details.get(NOT_APPLICABLE)]
        return EXIT_UNMEASURABLE if missing or not self.results else EXIT_OK


async def make_checks(
    options: Options,
    store: RunStore,
    servers: Servers,
    checks: Sequence[Check[Any]],
    reporter: Reporter,
    *,
    quick: bool = False,
    limit: int | None = None,
) -> Outcome:
    """Make every check on every arm; servers are stopped on every way out.

    Args:
        options: which arms and prompts, and how wide.
        store: the run that gets the results.
        servers: where each arm's server comes from.
        checks: which.
        reporter: told what happens.
        quick: answer in minutes.
        limit: no more questions a check than this.

    Raises:
        SpecdeckError: a result could not be stored.
    """
    outcome, folder = Outcome(), store.path / QUALITY_FOLDER
    run = store.run()
    try:
        for arm in sorted(options.arms, key=lambda name: name != BASELINE):
            for check in checks:
                try:
                    served = await servers.get(arm)
                except SpecdeckError as error:
                    outcome.failures[arm] = error
                    reporter.line(f"{arm}: failed: {error.what.splitlines()[0]}")
                    break
                if run.arms.get(arm) != served.info:
                    run = msgspec.structs.replace(run, arms={**run.arms, arm: served.info})
                    store.save_run(run)
                result = await _make(check, _job(options, served, arm, folder, reporter, quick, limit), folder)
                write_check(store.path, result)
                outcome.results.append(result)
                reporter.line(told(result))
    finally:
        await servers.stop()
    if run.status == "running":
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        store.save_run(
            msgspec.structs.replace(run, status="partial" if outcome.failures else "complete", finished_at=now)
        )
    return outcome


def told(result: CheckResult) -> str:
    """A result in one line."""
    figure = "" if result.value is None else f" {result.value:.4g} {result.unit or ''}".rstrip()
    within = f" [{result.interval[0]:.4g}, {result.interval[1]:.4g}]" if result.interval else ""
    against = f" against {result.reference:.4g}" if result.reference is not None else ""
    count = f" (n = {result.n})" if result.n else ""
    word = "not applicable" if result.details.get(NOT_APPLICABLE) else result.verdict
    reason = f": {result.reason}" if result.reason else ""
    return f"{result.arm} {result.check}: {word}{figure}{within}{against}{count}{reason}"


async def _make(check: Check[Any], job: Job, folder: Path) -> CheckResult:
    """One check, from its stored observation where there is one."""
    began = time.monotonic()
    path = folder / SEEN_FOLDER / f"{checked_name(check.name, 'check')}-{checked_name(job.arm, 'arm')}.json"
    seen = _stored(path, check)
    if seen is None:
        async with job.asker:
            try:
                seen = await check.observe(job)
            except NotApplicable as reason:
                return not_applicable(check.name, job.arm, str(reason))
            except AskError as error:
                return await failure(check.name, job, error, check.death)
        with storing(f"what {check.name} saw of {job.arm}", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(seen))
    base = _stored(path.with_name(f"{check.name}-{BASELINE}.json"), check) if job.arm != BASELINE else None
    result = check.judge(job.arm, seen, base, job.recipe)
    details = {**result.details, "seconds": round(time.monotonic() - began, 1), "quick": job.quick}
    return msgspec.structs.replace(result, details=details)


def _stored(path: Path, check: Check[Any]) -> Any:
    """A stored observation; None when there is none, or it is of another version of the check."""
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=check.seen)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _job(
    options: Options,
    served: Served,
    arm: str,
    folder: Path,
    reporter: Reporter,
    quick: bool,
    limit: int | None,
) -> Job:
    server = served.server
    return Job(
        arm=arm,
        asker=Asker(server.base_url, server.served_model, server.api_key, timeout_s=options.plan.request_timeout_s),
        server=server,
        recipe=options.recipe,
        root=options.root,
        folder=folder,
        prompts=options.prompts,
        width=max(options.plan.concurrency),
        quick=quick,
        limit=limit,
        max_model_len=_length(served.info),
        seed=options.plan.seed or 0,
        reporter=reporter,
    )


def _length(info: ArmInfo) -> int | None:
    found = info.readiness.get("max_model_len")
    return found if isinstance(found, int) else None
