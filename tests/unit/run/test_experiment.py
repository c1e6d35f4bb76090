"""Nothing measured is ever lost: arms that fail, servers that die, full disks and kills leave every finished cell."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.fake_server import DRAFTED, TOKENS, FakeServer, drop_connection, serving

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target
from specdeck.load.prompts import Prompt
from specdeck.recipe import Plan
from specdeck.results.schema import ArmInfo
from specdeck.results.store import RunStore
from specdeck.run import experiment
from specdeck.run.experiment import Outcome, open_store, run_experiment
from specdeck.run.options import Options
from specdeck.run.selftest import SELF_TEST, SelfTest
from specdeck.run.servers import Served

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

PROMPTS = tuple(Prompt(id=f"p-{i}", category="c", prompt=f"question {i}") for i in range(3))


class Lines:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.total = self.done = 0

    def line(self, text: str) -> None:
        self.lines.append(text)

    def begin(self, total_requests: int) -> None:
        self.total = total_requests

    def request_done(self, label: str) -> None:
        del label
        self.done += 1


@dataclass
class FakeProcess:
    """What an experiment sees of a server process."""

    base_url: str
    served_model: str = "tiny"
    log_path: Path | None = None
    status: int | None = None
    pid: int | None = None

    def exit_status(self) -> int | None:
        return self.status

    def last_log(self, n: int = 30) -> list[str]:
        return ["INFO loading", "ValueError: the cause"][-n:]


@dataclass
class FakeServers:
    """Serves every arm from one double; `broken` arms cannot start."""

    fake: FakeServer
    broken: dict[str, SpecdeckError] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    stopped: int = 0
    processes: dict[str, FakeProcess] = field(default_factory=dict)

    async def get(self, arm: str) -> Served:
        if arm in self.broken:
            raise self.broken[arm]
        self.started.append(arm)
        process = self.processes.setdefault(arm, FakeProcess(self.fake.base_url))
        info = ArmInfo(name=arm, method="mtp", num_speculative_tokens=DRAFTED)
        return Served(process, Target(self.fake.base_url, "tiny"), info)  # type: ignore[arg-type]

    async def stop(self, *, now: bool = False) -> None:
        self.stopped += 1


def _options(tmp_path: Path, **plan: Any) -> Options:
    prompts, warmup = tmp_path / "p.jsonl", tmp_path / "w.jsonl"
    prompts.write_text("p\n")
    warmup.write_text("w\n")
    values = {"name": "t", "title": "t", "arms": ("one", "two"), "concurrency": (1, 2), "max_tokens": TOKENS, **plan}
    return Options(
        root=tmp_path,
        recipe=None,
        plan=Plan(**values),
        arms=values["arms"],
        unavailable={},
        prompts_path=prompts,
        prompts=PROMPTS,
        warmup_path=warmup,
        warmup=PROMPTS,
        attached={"one": "http://a", "two": "http://b"},
        python=None,
    )


async def _run(options: Options, servers: FakeServers, reporter: Lines | None = None) -> tuple[Outcome, RunStore]:
    store = open_store(options, options.root / "measured", fresh=False, reporter=reporter or Lines())
    try:
        return await run_experiment(options, store, servers, reporter or Lines()), store
    finally:
        store.close()


async def test_every_cell_of_the_plan_is_stored_and_the_run_is_complete(tmp_path: Path) -> None:
    lines = Lines()
    async with serving(FakeServer()) as fake:
        servers = FakeServers(fake)
        outcome, store = await _run(_options(tmp_path, rounds=2), servers, lines)
    assert (outcome.measured, outcome.failures, outcome.invalid) == (8, {}, 0)
    assert {(cell.arm, cell.cell_id) for cell, _ in store.cells()} == {
        (arm, f"c{c}-r{r}") for arm in ("one", "two") for c in (1, 2) for r in (1, 2)
    }
    assert store.run().status == "complete"
    assert store.run().finished_at is not None
    assert lines.done == lines.total == 8 * len(PROMPTS)
    assert servers.stopped == 1


async def test_an_arm_that_cannot_start_does_not_stop_the_others(tmp_path: Path) -> None:
    async with serving(FakeServer()) as fake:
        servers = FakeServers(fake, broken={"one": SpecdeckError("no such drafter", fix="build it")})
        outcome, store = await _run(_options(tmp_path), servers)
    assert list(outcome.failures) == ["one"]
    assert [cell.arm for cell, _ in store.cells()] == ["two", "two"]
    assert store.run().status == "partial"


async def test_the_same_command_measures_only_what_is_missing(tmp_path: Path) -> None:
    options, lines = _options(tmp_path), Lines()
    async with serving(FakeServer()) as fake:
        _, first = await _run(options, FakeServers(fake, broken={"one": SpecdeckError("not yet")}))
        outcome, second = await _run(options, FakeServers(fake), lines)
    assert second.path == first.path
    assert outcome.measured == 2
    assert lines.total == 2 * len(PROMPTS)
    assert second.run().status == "complete"
    assert any("continuing" in line for line in lines.lines)


async def test_a_complete_run_is_never_continued_but_started_anew(tmp_path: Path) -> None:
    options = _options(tmp_path, concurrency=(1,))
    async with serving(FakeServer()) as fake:
        _, first = await _run(options, FakeServers(fake))
        await asyncio.sleep(1.1)  # run ids count seconds
        outcome, second = await _run(options, FakeServers(fake))
    assert second.path != first.path
    assert outcome.measured == 2


@pytest.mark.parametrize("change", ["plan", "prompts"])
async def test_a_changed_plan_or_prompt_set_is_another_experiment(tmp_path: Path, change: str) -> None:
    options = _options(tmp_path)
    before = options.fingerprint({})
    if change == "prompts":
        options.prompts_path.write_text("another\n")
    else:
        options = _options(tmp_path, rounds=3)
    assert options.fingerprint({}) != before


async def test_a_server_that_dies_loses_only_the_cell_in_flight(tmp_path: Path) -> None:
    async with serving(FakeServer()) as fake:
        servers = FakeServers(fake)
        servers.processes["two"] = FakeProcess(fake.base_url, status=-9)
        outcome, store = await _run(_options(tmp_path), servers)
    assert [cell.arm for cell, _ in store.cells()] == ["one", "one"]
    message = str(outcome.failures["two"])
    assert "status -9" in message
    assert "ValueError: the cause" in message
    assert "Fix:" in message
    assert outcome.failures["two"].exit_code == 1


@pytest.mark.parametrize("health", [None, 503])
async def test_a_server_that_died_fails_its_arm_although_no_exit_status_is_known_yet(
    tmp_path: Path, health: int | None
) -> None:
    async with serving(FakeServer()) as fake:

        async def die(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            fake.health = health
            await drop_connection(request)
            raise AssertionError  # the connection is gone

        fake.answer = die
        outcome, store = await _run(_options(tmp_path, arms=("one",)), FakeServers(fake))
    assert store.cells() == []
    assert (outcome.invalid, outcome.failures["one"].exit_code) == (0, 1)
    assert outcome.skipped == 1


async def test_failed_requests_of_a_server_that_lives_make_the_cell_invalid_and_not_the_arm_failed(
    tmp_path: Path,
) -> None:
    async with serving(FakeServer()) as fake:

        async def cut(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            await drop_connection(request)
            raise AssertionError  # the connection is gone

        fake.answer = cut
        outcome, store = await _run(_options(tmp_path, arms=("one",), concurrency=(1,)), FakeServers(fake))
    assert outcome.failures == {}
    assert [cell.status for cell, _ in store.cells()] == ["invalid"]


async def test_a_full_disk_ends_the_run_keeps_earlier_cells_and_stops_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = _options(tmp_path)
    async with serving(FakeServer()) as fake:
        servers = FakeServers(fake)
        store = open_store(options, tmp_path / "measured", fresh=False, reporter=Lines())
        write, calls = RunStore.write_cell, []

        def full(self: RunStore, *args: Any) -> Any:
            calls.append(args)
            if len(calls) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, *args)

        monkeypatch.setattr(RunStore, "write_cell", full)
        with pytest.raises(OSError, match="No space left"):
            await run_experiment(options, store, servers, Lines())
        store.close()
    assert len(store.cells()) == 1
    assert servers.stopped == 1


async def test_cancelling_stops_the_servers_and_the_run_can_be_continued(tmp_path: Path) -> None:
    options = _options(tmp_path)
    async with serving(FakeServer(delay_s=0.05)) as fake:
        servers = FakeServers(fake)
        store = open_store(options, tmp_path / "measured", fresh=False, reporter=Lines())
        task = asyncio.create_task(run_experiment(options, store, servers, Lines()))
        while not store.cells():  # noqa: ASYNC110 - what is waited for is a folder
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.close()
        assert servers.stopped == 1
        kept = len(store.cells())
        outcome, again = await _run(options, FakeServers(fake))
    assert again.path == store.path
    assert outcome.measured == 4 - kept


def test_a_cell_line_says_every_finding() -> None:
    class Found:
        severity, code, message = "invalid", "contaminated", "other traffic"

    assert "invalid contaminated: other traffic" in experiment._cell_line("one c1-r1", 1.0, [], [Found()])


async def test_what_the_client_can_do_is_kept_with_the_run_and_a_client_that_cannot_be_tried_measures_on(
    tmp_path: Path,
) -> None:
    found = SelfTest(
        chunks_per_s=5e4,
        ttft_error_mean_ms=0.5,
        ttft_error_max_ms=1.0,
        gap_error_p99_ms=0.25,
        loop_lag_p99_ms=0.1,
        measured_at="2026-01-01T00:00:00+00:00",
    )
    tried: list[str] = []

    async def sound() -> SelfTest:
        tried.append("sound")
        return found

    async def broken() -> SelfTest:
        tried.append("broken")
        raise SpecdeckError("no socket", fix="-")

    for number, test in enumerate((sound, broken)):
        folder, lines = tmp_path / str(number), Lines()
        folder.mkdir()
        async with serving(FakeServer()) as fake:
            store = open_store(_options(folder), folder / "measured", fresh=False, reporter=lines)
            try:
                outcome = await run_experiment(_options(folder), store, FakeServers(fake), lines, self_test=test)
                assert outcome.measured == 4
                kept = store.run().provenance.get(SELF_TEST)
            finally:
                store.close()
        assert (kept or {}).get("chunks_per_s") == (5e4 if test is sound else None)
        assert any(("50k chunks/s" if test is sound else "no socket") in line for line in lines.lines)
    assert tried == ["sound", "broken"]
