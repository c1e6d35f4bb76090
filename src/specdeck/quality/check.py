"""What a check is, what it is given, and what it means when a server fails under it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from specdeck.results.quality import CheckResult
from specdeck.results.schema import Strict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from specdeck.engine.runtime import Server
    from specdeck.load.prompts import Prompt
    from specdeck.quality.asking import Asker, AskError
    from specdeck.recipe import Recipe
    from specdeck.run.progress import Reporter

BASELINE = "none"
NOT_APPLICABLE = "not_applicable"
ALPHA = 0.01
"""A difference counts from here: a healthy server is called broken in at most one of a hundred checks."""
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|bad_alloc|Cannot allocate memory|DefaultCPUAllocator")
_DYING_S = 3.0
Verdict = Literal["pass", "fail", "unmeasurable"]
SeenT = TypeVar("SeenT", bound=Strict)


class NotApplicable(Exception):  # noqa: N818 - nothing went wrong
    """The model or the server lacks what the check is about; the message says what."""


@dataclass(frozen=True)
class Job:
    """One server to observe.

    Attributes:
        width: requests in flight where a check asks several at once: the plan's largest concurrency.
        quick: answer in minutes rather than thoroughly (`specdeck smoke`).
        limit: no more questions than this; None: as many as the check wants.
        max_model_len: tokens a request may have; None where the server does not say.
        folder: where a check may keep what it wants to go on with after an interruption.
        reporter: told what is done and what is left.
    """

    arm: str
    asker: Asker
    server: Server
    recipe: Recipe | None
    root: Path
    folder: Path
    prompts: tuple[Prompt, ...]
    width: int
    quick: bool
    limit: int | None
    max_model_len: int | None
    seed: int
    reporter: Reporter

    def counter(self, label: str, total: int) -> Callable[[], None]:
        """Begin `total` pieces of work; return a function that says that one more is done."""
        self.reporter.begin(total)
        return lambda: self.reporter.request_done(f"{self.arm} {label}")


class Check(Protocol[SeenT]):
    """A check: `observe` asks a server, `judge` compares with the baseline's observation and with what is expected.

    Attributes:
        name: also the first part of the result's file name.
        title: what it answers, in a few words.
        seen: the record that `observe` returns.
        death: what it means when the server dies under the check.
    """

    name: str
    title: str
    seen: type[SeenT]
    death: Verdict

    async def observe(self, job: Job) -> SeenT:
        """Ask the server.

        Raises:
            AskError: a request failed that must not.
            NotApplicable: there is nothing to check here.
        """

    def judge(self, arm: str, seen: SeenT, base: SeenT | None, recipe: Recipe | None) -> CheckResult:
        """Judge. `base` is what the arm `none` showed; None where it was not observed."""


def prompt_part(prompt: Prompt) -> dict[str, Any]:
    """A prompt as Asker takes it."""
    if prompt.messages is None:
        return {"messages": [{"role": "user", "content": prompt.text}]}
    return {"messages": [{"role": m.role, "content": m.content} for m in prompt.messages]}


def thinking_off(job: Job) -> dict[str, Any]:
    """Options that have a model answer at once where the recipe says that it would think first."""
    serve = job.recipe.serve_of(job.arm) if job.recipe and job.arm in job.recipe.arms else None
    return {"chat_template_kwargs": {"enable_thinking": False}} if serve and serve.reasoning_parser else {}


async def failure(name: str, job: Job, error: AskError, death: Verdict) -> CheckResult:
    """The result of a check whose request failed.

    A server that ran out of memory is told as that, never as a bad score.
    """
    died = error.kind in ("lost", "failed") and await _gone(job)
    log = job.server.last_log(400)
    memory = _OUT_OF_MEMORY.search(error.message) or next(filter(None, map(_OUT_OF_MEMORY.search, log)), None)
    if memory and (died or error.kind != "refused"):
        reason = (
            f"the server ran out of memory ({memory[0]}): this is no score. {_utilisation(job)}"
            if name == "perplexity"
            else f"the server ran out of memory ({memory[0]}). {_utilisation(job)}"
        )
    elif died:
        reason = f"the server ended under the check: {error.message}. Fix: read its log{_log(job)}"
    else:
        reason = f"a request failed: {error.message}. Fix: read the server's log{_log(job)}"
    verdict: Verdict = death if died or memory else "unmeasurable"
    return CheckResult(
        check=name,
        arm=job.arm,
        verdict=verdict,
        n=1 if verdict == "fail" else 0,
        reason=reason,
        details={"error": error.message, "kind": error.kind, "status": error.status, "server_died": died},
    )


def not_applicable(name: str, arm: str, reason: str) -> CheckResult:
    """The result of a check that has nothing to check."""
    return CheckResult(check=name, arm=arm, verdict="unmeasurable", n=0, reason=reason, details={NOT_APPLICABLE: True})


async def _gone(job: Job) -> bool:
    """Whether the server is dead; one that has just broken a connection gets a moment to be."""
    for _ in range(int(_DYING_S / 0.25)):
        if job.server.exit_status() is not None:
            return True
        if await job.asker.healthy():
            return False
        await asyncio.sleep(0.25)
    return True


def _utilisation(job: Job) -> str:
    now = job.recipe.serve_of(job.arm).gpu_memory_utilization if job.recipe and job.arm in job.recipe.arms else None
    given = f" (now {now:g})" if now is not None else ""
    return (
        "prompt_logprobs takes about 0.6 MB of logits a prompt token outside the pool. "
        f"Fix: lower serve.gpu_memory_utilization{given} by 0.02, then run the check again"
    )


def _log(job: Job) -> str:
    return f": less {job.server.log_path}" if job.server.log_path else ""
