"""Proves that a server is ready and is the arm it claims to be.

In this order: it lives, /health, a real completion, the claims. Every wait is bounded; a server that fails or hangs is
stopped, and the reason given is the first real error of its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, TypeVar

from specdeck.engine.claims import Evidence, Expectation, check
from specdeck.engine.http import Http, Unreachable, get_models
from specdeck.engine.logfacts import read_log
from specdeck.engine.logs import LogReader, advice, first_error, interesting
from specdeck.engine.probe import Probe, ask
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.rules.symptoms import known_trap
from specdeck.telemetry.counters import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from specdeck.engine.claims import Claim
    from specdeck.engine.http import Answer, Models
    from specdeck.engine.runtime import Server

__all__ = ["Expectation", "prove_ready"]

T = TypeVar("T")

_POLL_S = 0.25
_HEALTH_S = 10.0
_REQUEST_S = 30.0
_PROGRESS_S = 5.0
_REMIND_S = 20.0
_SETTLE_S = 10.0
_LAST_LINES = 30


async def prove_ready(
    server: Server,
    expectation: Expectation | None,
    *,
    timeout_s: float,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Wait until a server is ready and prove what it is.

    Args:
        server: just started, or attached to.
        expectation: what it claims to be; None: nothing is claimed, and only what is seen is recorded.
        timeout_s: for everything together.
        progress: told the last telling log line, at most every 5 s.

    Returns:
        The proof, JSON-able: `steps` with times since the call, `claims` with status passed or not_checked, and what
        was observed: model, vllm_version, method, drafter_architecture, num_speculative_tokens, aux_layer_ids, …

    Raises:
        SpecdeckError: it died, hung, is no vLLM server, or is not what it claims (exit code 1). The server has been
            stopped then, and the message carries the first real error and the last 30 lines of its log.
    """
    prover = _Prover(server, expectation, timeout_s, progress)
    try:
        async with Http(server.base_url, server.api_key) as http:
            return await prover.run(http)
    except BaseException:
        with contextlib.suppress(SpecdeckError):  # the first failure is the one to tell
            await server.stop()
        raise


class _Prover:
    def __init__(
        self, server: Server, expectation: Expectation | None, timeout_s: float, progress: Callable[[str], None]
    ) -> None:
        self.server = server
        self.expectation = expectation
        self.timeout_s = timeout_s
        self.progress = progress
        self.began = time.monotonic()
        self.reader = LogReader(server.log_path)
        self.steps: list[dict[str, Any]] = []
        self.told_at = self.began
        self.told = ""

    async def run(self, http: Http) -> dict[str, Any]:
        await self.health(http)
        models = await self.request(get_models(http, timeout_s=self.remaining(_REQUEST_S)), "/v1/models")
        version = await self.version(http)
        before = await self.snapshot(http)
        probe = await self.request(ask(http, self.server.served_model, timeout_s=self.remaining()), "a completion")
        self.passed("completion", f"{probe.completion_tokens} tokens by /v1/{probe.endpoint}")
        after = await self.settled(http, before, drafting=bool(self.expectation and self.expectation.method))
        return self.judge(models, version, before, after, probe)

    async def health(self, http: Http) -> None:
        lived = False
        while True:
            self.alive("while loading")
            if not lived and self.server.pid is not None:
                self.passed("process", f"pid {self.server.pid}")
                lived = True
            try:
                answer = await http.get("/health", timeout_s=self.remaining(_HEALTH_S))
            except Unreachable as reason:
                if self.server.log_path is None and self.elapsed() > min(_HEALTH_S, self.timeout_s):
                    raise self.failure(
                        f"no server answers: {reason}", fix="check the address, and that it is up"
                    ) from None
            else:
                if answer.status == 200:
                    self.passed("health", "HTTP 200")
                    return
                if answer.status != 503:
                    raise self.failure(
                        f"/health does not answer as vLLM's does: {answer.described}",
                        fix="give the base URL of the vLLM server itself, not of a proxy or another service",
                    )
            self.tell("/health")
            await asyncio.sleep(_POLL_S)

    async def request(self, request: Awaitable[T], what: str) -> T:
        """Await an answer; meanwhile report progress, and turn every failure into this server's story."""
        task = asyncio.ensure_future(request)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_POLL_S)
                self.tell(what)
            return task.result()
        except Unreachable as reason:
            await self.maybe_dying()
            self.alive(f"while answering {what}")
            if self.remaining_s() <= 0:
                raise self.hung(what) from None
            raise self.failure(f"the server does not answer {what}: {reason}") from None
        except SpecdeckError as error:
            await self.maybe_dying()
            self.alive(f"while answering {what}")
            raise self.failure(error.what, fix=error.fix) from None
        finally:
            task.cancel()

    async def version(self, http: Http) -> str | None:
        answer = await self.request(http.get("/version", timeout_s=self.remaining(_REQUEST_S)), "/version")
        body = answer.json()
        version = body.get("version") if answer.status == 200 and isinstance(body, dict) else None
        return version if isinstance(version, str) else None

    async def snapshot(self, http: Http) -> Snapshot:
        answer: Answer = await self.request(http.get("/metrics", timeout_s=self.remaining(_REQUEST_S)), "/metrics")
        where = f"{self.server.base_url}/metrics"
        fix = "start vLLM without --disable-log-stats, and give the URL of the server itself, not of a proxy"
        if answer.status != 200 or answer.kind == "text/html":
            raise self.failure(f"there are no counters at {where}: {answer.described}", fix=fix)
        try:
            snapshot = Snapshot.parse(answer.text, self.server.served_model, where=where)
        except SpecdeckError as error:
            raise self.failure(f"{error.what} ({error.where})", fix=error.fix) from None
        if snapshot.running is None:
            raise self.failure(f"{where} shows no counters of vLLM for {self.server.served_model!r}", fix=fix)
        return snapshot

    async def settled(self, http: Http, before: Snapshot, *, drafting: bool) -> Snapshot:
        """Return the counters once the probe is counted: vLLM updates them a moment after the answer."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            after = await self.snapshot(http)
            counted = (after.generation_tokens or 0) > (before.generation_tokens or 0)
            drafted = not drafting or after.drafts is None or after.drafts > (before.drafts or 0)
            if (counted and drafted) or time.monotonic() > deadline:
                return after
            await asyncio.sleep(_POLL_S)

    def judge(
        self, models: Models, version: str | None, before: Snapshot, after: Snapshot, probe: Probe
    ) -> dict[str, Any]:
        self.reader.new()
        log = read_log(self.reader.lines) if self.server.log_path else None
        seen = Evidence(
            log=log,
            log_text="\n".join(self.reader.lines) if self.expectation and self.expectation.log_lines else "",
            model=self.server.served_model,
            models=models.names,
            version=version,
            before=before,
            after=after,
            payload=probe.speculative,
            completion_tokens=probe.completion_tokens,
        )
        claims = check(self.expectation, seen)
        failed = [claim for claim in claims if claim.status == "failed"]
        if failed:
            raise self.mismatch(failed)
        self.passed("claims", f"{sum(claim.status == 'passed' for claim in claims)} of {len(claims)} checked")
        n = len(after.accepted_per_pos) if after.accepted_per_pos else None
        return {
            "base_url": self.server.base_url,
            "model": self.server.served_model,
            "max_model_len": models.max_model_len,
            "vllm_version": version or (log.version if log else None),
            "method": (log.method if log else None) or (self.expectation.method if self.expectation else None),
            "drafter_architecture": log.drafter_architecture if log else None,
            "target_architecture": log.architectures[0] if log and log.architectures else None,
            "num_speculative_tokens": n or (log.num_speculative_tokens if log else None),
            "aux_layer_ids": list(log.aux_layer_ids) if log and log.aux_layer_ids is not None else None,
            "model_runner": "V2" if log and log.v2_runner else None,
            "kv_cache_tokens": log.kv_cache_tokens if log else None,
            "attention_block_size": log.attention_block_size if log else None,
            "steps": self.steps,
            "claims": [vars(claim) for claim in claims],
            "not_checked": [claim.claim for claim in claims if claim.status == "not_checked"],
            "probe": probe.summary() | {"drafts": _risen(before.drafts, after.drafts)},
            "ready_s": round(self.elapsed(), 2),
        }

    def passed(self, step: str, detail: str) -> None:
        self.steps.append({"step": step, "at_s": round(self.elapsed(), 2), "detail": detail})

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def remaining_s(self) -> float:
        return self.timeout_s - self.elapsed()

    def remaining(self, at_most: float | None = None) -> float:
        """Return how long the next request may take; never 0, which would mean for ever."""
        return max(0.05, min(self.remaining_s(), at_most or self.timeout_s))

    def tell(self, waiting_for: str) -> None:
        """Report the last telling log line, or what is waited for; never more often than every 5 s."""
        self.reader.new()
        now = time.monotonic()
        if now - self.told_at < _PROGRESS_S:
            return
        line = interesting(self.reader.recent) or ""
        if line == self.told and now - self.told_at < _REMIND_S:
            return
        text = line if line != self.told else f"still waiting for {waiting_for}"
        self.told, self.told_at = line, now
        self.progress(f"{self.elapsed():.0f} s: {text}")

    def alive(self, when: str) -> None:
        """Raise when the server has ended or the time is over."""
        status = self.server.exit_status()
        if status is not None:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"
            raise self.failure(f"the server {how} {when}, after {self.elapsed():.0f} s", died=status)
        if self.remaining_s() <= 0:
            raise self.hung("/health")

    async def maybe_dying(self) -> None:
        """Give a server that broke a connection a moment to be dead, so that the right thing is told."""
        for _ in range(12 if self.server.log_path else 0):
            if self.server.exit_status() is not None:
                return
            await asyncio.sleep(_POLL_S)

    def hung(self, what: str) -> SpecdeckError:
        return self.failure(
            f"the server did not answer {what} within {self.timeout_s:.0f} s and was stopped",
            fix="if it was only slow, raise engine.ready_timeout_s in the recipe; otherwise read its log",
        )

    def mismatch(self, failed: list[Claim]) -> SpecdeckError:
        assert self.expectation is not None or failed
        arm = f"arm {self.expectation.arm}" if self.expectation else "the arm"
        reasons = "\n".join(f"  {claim.claim}: {claim.detail}" for claim in failed)
        return SpecdeckError(
            f"the server is not what {arm} claims to be:\n{reasons}",
            where=str(self.server.log_path or self.server.base_url),
            fix="correct the arm in the recipe, or start the server with what the arm says",
            exit_code=EXIT_FAILED,
        )

    def failure(self, what: str, *, fix: str | None = None, died: int | None = None) -> SpecdeckError:
        self.reader.new()
        lines = self.reader.all_lines()
        cause = first_error(lines) if died is not None else None
        parts = [what]
        if cause:
            parts.append("  first error: " + cause.replace("\n", "\n    ") + known_trap(cause))
        last = self.server.last_log(_LAST_LINES)
        if last:
            parts += [f"  last {len(last)} lines of its log:", *(f"  | {line}" for line in last)]
        log = self.server.log_path
        return SpecdeckError(
            "\n".join(parts),
            where=str(log or self.server.base_url),
            fix=fix or advice(cause, died) or (f"read the log: less {log}" if log else "read the server's log"),
            exit_code=EXIT_FAILED,
        )


def _risen(before: int | None, after: int | None) -> int | None:
    return None if after is None else after - (before or 0)
