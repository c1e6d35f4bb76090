"""The servers of an experiment: started when an arm needs one, proved, warmed, and gone at the end whatever happens.

Where a host can hold all arms at once (`hardware.arms_resident`) they stay up and rounds switch between them;
otherwise a server is replaced whenever the arm changes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from specdeck.engine.attach import attach
from specdeck.engine.readiness import Expectation, prove_ready
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.load.client import Target
from specdeck.load.warmup import warm_up
from specdeck.recipe.synthetic import asked_rates
from specdeck.results.schema import ArmInfo
from specdeck.run.provenance import public_environment, values_without_root, without_root
from specdeck.run.synthetic import set_rates, sibling

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.engine.runtime import Server
    from specdeck.run.options import Options
    from specdeck.run.progress import Reporter
    from specdeck.run.starting import Start


UNKNOWN_METHOD = "unknown"


@dataclass
class Served:
    """A server that has proved what it is and has been warmed up."""

    server: Server
    target: Target
    info: ArmInfo


class Servers(Protocol):
    """Where the experiment gets the server of an arm."""

    async def get(self, arm: str) -> Served:
        """Return the arm's server, proved and warm, starting it when it does not run."""

    async def stop(self) -> None:
        """Stop what was started; a second call does nothing."""


class LocalServers:
    """Servers started from a recipe on this machine."""

    def __init__(self, options: Options, run_dir: Path, start: Start, reporter: Reporter) -> None:
        assert options.recipe is not None
        self._options, self._recipe = options, options.recipe
        self._run_dir, self._starter, self._reporter = run_dir, start, reporter
        self._running: dict[str, Served] = {}
        self._rates: dict[int, tuple[float, ...]] = {}

    async def get(self, arm: str) -> Served:
        """Return the arm's server; without `arms_resident` every other arm's server is stopped first.

        Raises:
            SpecdeckError: it died, hung, or serves something else than the arm says (exit code 1).
        """
        shared = await self._shared(arm)
        if shared is not None:
            return shared
        served = self._running.get(arm)
        if served is not None and served.server.exit_status() is None:
            return served
        if not self._recipe.hardware.arms_resident:
            await self.stop()
        self._running.pop(arm, None)
        self._running[arm] = served = await self._start(arm)
        return served

    async def stop(self) -> None:
        """Stop every server this object started."""
        running, self._running = self._running, {}
        self._rates = {}
        await asyncio.gather(*(server.stop() for server in {id(s.server): s.server for s in running.values()}.values()))

    async def _shared(self, arm: str) -> Served | None:
        """A running server that serves the arm once its acceptance rates are changed; None where there is none."""
        alive = {name: s for name, s in self._running.items() if s.server.exit_status() is None}
        other = arm if arm in alive else sibling(self._recipe, arm, alive)
        rates = asked_rates(self._recipe.arms[arm])
        if other is None or rates is None:
            return None
        served = alive[other]
        if self._rates.get(id(served.server)) != rates:
            await set_rates(served.server.base_url, served.server.api_key, rates)
            self._rates[id(served.server)] = rates
            self._reporter.line(f"{arm}: acceptance rates changed on the server of {other}")
        if arm not in alive:
            info = msgspec.structs.replace(served.info, name=arm, asked_rates=rates)
            self._running[arm] = served = Served(served.server, served.target, info)
        return served

    async def _start(self, arm: str) -> Served:
        options = self._options
        log_path = _next_log(self._run_dir / arm)
        self._reporter.line(f"{arm}: log {without_root(str(log_path), options.root)}")
        started = await self._starter(arm, log_path, lambda text: self._reporter.line(f"{arm}: {text}"))
        server = started.server
        try:
            proof = await prove_ready(
                server,
                Expectation.of(self._recipe, arm, root=options.root),
                timeout_s=self._recipe.engine.ready_timeout_s,
                progress=lambda text: self._reporter.line(f"{arm}: {text}"),
            )
            target = Target(
                base_url=server.base_url,
                model=server.served_model,
                endpoint=options.plan.endpoint,
                api_key=server.api_key,
            )
            await _warm(target, options, self._reporter, arm)
        except BaseException:
            await server.stop()
            raise
        spec = self._recipe.arms[arm]
        info = ArmInfo(
            name=arm,
            method=spec.method,
            num_speculative_tokens=spec.num_speculative_tokens,
            command=tuple(without_root(word, options.root) for word in started.argv),
            env={k: without_root(v, options.root) for k, v in public_environment(started.env).items()},
            readiness=public(proof, options.root),
            asked_rates=asked_rates(spec),
        )
        if info.asked_rates is not None:
            self._rates[id(server)] = info.asked_rates
        return Served(server, target, info)


class AttachedServers:
    """Servers that already run, one URL an arm. They are proved and warmed, never stopped."""

    def __init__(self, options: Options, reporter: Reporter, api_key: str | None) -> None:
        self._options, self._reporter, self._api_key = options, reporter, api_key
        self._known: dict[str, Served] = {}

    async def get(self, arm: str) -> Served:
        """Return the arm's server.

        Raises:
            SpecdeckError: nothing answers there, or it is not the arm it is said to be.
        """
        if arm in self._known:
            return self._known[arm]
        options = self._options
        server = await attach(options.attached[arm], api_key=self._api_key)
        expectation = (
            Expectation.of(options.recipe, arm, root=options.root)
            if options.recipe is not None and arm in options.recipe.arms
            else None
        )
        proof = await prove_ready(
            server, expectation, timeout_s=60, progress=lambda text: self._reporter.line(f"{arm}: {text}")
        )
        target = Target(
            base_url=server.base_url, model=server.served_model, endpoint=options.plan.endpoint, api_key=self._api_key
        )
        await _warm(target, options, self._reporter, arm)
        drafted = proof["num_speculative_tokens"]
        info = ArmInfo(
            name=arm,
            # A server without a log drafts visibly (counters, payloads) but does not say how.
            method=proof["method"] or (UNKNOWN_METHOD if drafted else None),
            num_speculative_tokens=drafted,
            readiness=public(proof, options.root),
        )
        self._known[arm] = served = Served(server, target, info)
        return served

    async def stop(self) -> None:
        """Forget the servers; they are not ours to stop."""
        self._known = {}


def public(proof: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the proof with paths below the checkout written relative to it."""
    return dict(values_without_root(msgspec.to_builtins(proof), root))


async def _warm(target: Target, options: Options, reporter: Reporter, arm: str) -> None:
    count = options.plan.warmup_requests
    if count == 0:
        return
    reporter.line(f"{arm}: {count} warm-up requests")
    errors = await warm_up(target, options.warmup, count, sampling=options.sampling)
    if errors:
        raise SpecdeckError(
            f"arm {arm}: {len(errors)} of {count} warm-up requests failed; the first: {errors[0]}",
            where=target.base_url,
            fix="read the server's log; a server that cannot answer the warm-up cannot be measured",
            exit_code=EXIT_FAILED,
        )


def _next_log(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"server-{len(list(folder.glob('server-*.log'))) + 1}.log"
