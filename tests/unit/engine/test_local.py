"""Nothing a server started is left running, and its port is free, however things end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from support.processes import FAKE, alive, children, fake_command, wait_until

from specdeck.engine import local, ports
from specdeck.engine.local import start_local
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.engine.local import LocalServer

HARNESS = """
import asyncio, pathlib, sys
sys.path.insert(0, {tests!r})
from support.processes import fake_command
from specdeck.engine import local
from specdeck.engine.local import start_local
local.TERM_TIMEOUT_S = 1.0

async def main():
    server = await start_local(fake_command({port}, *{words!r}), pathlib.Path({log!r}), port={port})
    print(server.pid, flush=True)
    {ending}
    await asyncio.sleep(300)

asyncio.run(main())
"""


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """A test that fails half-way leaves no harness behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "TERM_TIMEOUT_S", 1.0)


async def up(server: LocalServer) -> None:
    port = int(server.base_url.rsplit(":", 1)[1])
    for _ in range(400):
        if ports.answers("127.0.0.1", port):
            return
        await asyncio.sleep(0.02)
    pytest.fail("the fake server did not come up: " + "\n".join(server.last_log()))


async def ended(server: LocalServer) -> None:
    for _ in range(1000):
        if server.exit_status() is not None:
            return
        await asyncio.sleep(0.02)
    pytest.fail("the server did not end")


def gone(port: int, *pids: int) -> None:
    for pid in pids:
        wait_until(lambda pid=pid: not alive(pid), f"process {pid} is gone")  # type: ignore[misc]
    ports.require_free("127.0.0.1", port)


def pid_in(path: Path) -> int:
    wait_until(path.is_file, f"{path} is written")
    return int(path.read_text())


def harness(tmp_path: Path, port: int, *words: str, ending: str = "") -> tuple[subprocess.Popen[str], int]:
    """Start a harness in a process of its own; return it and the pid of its server."""
    code = HARNESS.format(
        tests=str(FAKE.parents[1]), port=port, words=words, log=str(tmp_path / "server.log"), ending=ending
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    STARTED.append(process)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    wait_until(lambda: ports.answers("127.0.0.1", port), "the server listens")
    return process, pid


async def test_a_stop_ends_the_server_and_frees_the_port(tmp_path: Path) -> None:
    port = ports.free_port()
    others = children(os.getpid())
    server = await start_local(fake_command(port), tmp_path / "a b" / "server.log", port=port)
    await up(server)
    assert server.exit_status() is None
    assert server.pid is not None
    assert any("listening on" in line for line in server.last_log())
    supervisors = set(children(os.getpid())) - set(others)
    assert len(supervisors) >= 2
    await server.stop()
    await server.stop()
    gone(port, server.pid, *supervisors)
    assert server.exit_status() == -signal.SIGTERM


async def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    port = ports.free_port()
    server = await start_local(fake_command(port, "ignore-term"), tmp_path / "server.log", port=port)
    await up(server)
    assert server.pid
    await server.stop()
    gone(port, server.pid)
    assert server.exit_status() == -signal.SIGKILL


async def test_a_stop_now_does_not_wait_for_a_clean_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "TERM_TIMEOUT_S", 60)
    port = ports.free_port()
    server = await start_local(fake_command(port, "ignore-term"), tmp_path / "server.log", port=port)
    await up(server)
    async with asyncio.timeout(5):
        await server.stop(now=True)


async def test_a_second_stop_does_not_wait_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "TERM_TIMEOUT_S", 60)
    port = ports.free_port()
    server = await start_local(fake_command(port, "ignore-term"), tmp_path / "server.log", port=port)
    await up(server)
    first = asyncio.create_task(server.stop())
    await asyncio.sleep(0.2)
    async with asyncio.timeout(5):
        await server.stop(now=True)
        await first


async def test_a_grandchild_that_left_its_session_and_ignores_sigterm_is_ended_too(tmp_path: Path) -> None:
    port = ports.free_port()
    server = await start_local(
        fake_command(port, "grandchild", str(tmp_path / "pid")), tmp_path / "server.log", port=port
    )
    await up(server)
    loner = pid_in(tmp_path / "pid")
    assert alive(loner)
    await server.stop()
    gone(port, loner)


async def test_a_crashed_server_reports_its_status_and_its_grandchild_is_ended(tmp_path: Path) -> None:
    port = ports.free_port()
    command = fake_command(port, "grandchild", str(tmp_path / "pid"), "exit", "0.2", "7")
    server = await start_local(command, tmp_path / "server.log", port=port)
    loner = pid_in(tmp_path / "pid")
    await ended(server)
    assert server.exit_status() == 7
    await server.stop()
    gone(port, loner)
    assert server.last_log()[-1] == "ValueError: as asked"


@pytest.mark.parametrize("ending", ["raise RuntimeError('bug')", "sys.exit(3)", "import os; os._exit(4)"])
def test_nothing_survives_a_harness_that_fails(tmp_path: Path, ending: str) -> None:
    port = ports.free_port()
    words = ("ignore-term", "grandchild", str(tmp_path / "pid"))
    process, pid = harness(tmp_path, port, *words, ending=f"await asyncio.sleep(0.5); {ending}")
    loner = pid_in(tmp_path / "pid")
    process.wait(timeout=30)
    gone(port, pid, loner)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_survives_a_harness_ended_by_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    port = ports.free_port()
    process, pid = harness(tmp_path, port, "ignore-term", "grandchild", str(tmp_path / "pid"))
    loner = pid_in(tmp_path / "pid")
    processes = children(process.pid)
    assert pid in processes
    process.send_signal(number)
    process.wait(timeout=30)
    gone(port, pid, loner, *processes)


@pytest.mark.parametrize("victim", [0, 1])
async def test_nothing_survives_when_one_of_the_two_supervisors_is_killed(tmp_path: Path, victim: int) -> None:
    port = ports.free_port()
    command = fake_command(port, "ignore-term", "grandchild", str(tmp_path / "pid"))
    server = await start_local(command, tmp_path / "server.log", port=port)
    await up(server)
    loner = pid_in(tmp_path / "pid")
    guard = next(pid for pid in children(os.getpid()) if server.pid in children(pid))
    supervisor = next(pid for pid in children(guard) if server.pid in children(pid))
    os.kill([guard, supervisor][victim], signal.SIGKILL)
    await ended(server)
    assert server.exit_status() == -signal.SIGKILL
    await server.stop()
    assert server.pid
    gone(port, server.pid, loner, guard, supervisor)


async def test_nothing_survives_when_both_supervisors_are_killed_at_once(tmp_path: Path) -> None:
    port = ports.free_port()
    command = fake_command(port, "ignore-term", "grandchild", str(tmp_path / "pid"))
    server = await start_local(command, tmp_path / "server.log", port=port)
    await up(server)
    loner = pid_in(tmp_path / "pid")
    guard = next(pid for pid in children(os.getpid()) if server.pid in children(pid))
    supervisor = next(pid for pid in children(guard) if server.pid in children(pid))
    os.kill(guard, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)
    await server.stop()
    assert server.pid
    gone(port, server.pid, loner)


async def test_a_program_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    port = ports.free_port()
    command = fake_command(port)
    broken = type(command)(**{**vars(command), "argv": ("/nowhere/python", "-m", "vllm")})
    with pytest.raises(SpecdeckError, match="No such file or directory") as caught:
        await start_local(broken, tmp_path / "server.log", port=port)
    assert caught.value.where == "/nowhere/python"
    assert caught.value.fix is not None
    assert "--python" in caught.value.fix


async def test_a_log_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    port = ports.free_port()
    (tmp_path / "server.log").mkdir()
    with pytest.raises(SpecdeckError, match="could not be started"):
        await start_local(fake_command(port), tmp_path / "server.log", port=port)


async def test_a_full_disk_under_the_log_hangs_nothing() -> None:
    port = ports.free_port()
    async with asyncio.timeout(20):
        server = await start_local(fake_command(port, "flood"), Path("/dev/full"), port=port)
        await ended(server)
        assert server.exit_status() not in (None, 0)
        assert server.last_log() == []
        await server.stop()


async def test_secrets_reach_the_server_but_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sesame-4711")
    port = ports.free_port()
    command = fake_command(port)
    command = type(command)(**{**vars(command), "passed_on": ("VLLM_API_KEY",)})
    server = await start_local(command, tmp_path / "server.log", port=port)
    try:
        assert server.api_key == "sesame-4711"
        assert server.pid
        for pid in (server.pid, *children(os.getpid())):
            assert "sesame" not in " ".join(psutil.Process(pid).cmdline())
        assert psutil.Process(server.pid).environ()["VLLM_API_KEY"] == "sesame-4711"
        assert "sesame" not in command.shell()
        assert 'VLLM_API_KEY="$VLLM_API_KEY"' in command.shell()
    finally:
        await server.stop()


async def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    port = ports.free_port()
    first = await start_local(fake_command(port), tmp_path / "1.log", port=port)
    try:
        await up(first)
        with pytest.raises(SpecdeckError, match=f"pid {first.pid}"):
            await start_local(fake_command(port), tmp_path / "2.log", port=port)
        assert not (tmp_path / "2.log").exists()
    finally:
        await first.stop()
