"""`specdeck bench` as a user runs it: whole, killed, interrupted, continued, and on servers that already run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

in_session_loop = pytest.mark.asyncio(loop_scope="session")

CELL = re.compile(r"c1-r1: \d+ requests")


def _command(results: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "specdeck", "bench", "--plan", "smoke", "--results", str(results), *words]


def _only_run(results: Path) -> Path:
    runs = list(results.iterdir())
    assert len(runs) == 1, runs
    return runs[0]


def _servers_of(results: Path) -> list[psutil.Process]:
    """Processes that write into the run's logs or were started for it."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "environ"]):
        environment = process.info["environ"] or {}
        words = " ".join(process.info["cmdline"] or [])
        if environment.get("SPECDECK_TEST_RUN") == str(results) and "vllm" in words.lower():
            found.append(process)
    return found


def _wait(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.1)


async def _run(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()  # an interrupted test must not leave its servers behind
    assert process.returncode is not None
    return process.returncode, output.decode()


@in_session_loop
async def test_three_arms_are_served_measured_and_reported(tmp_path: Path, python: Path) -> None:
    del python  # the environment is there before the clock of the command starts
    status, output = await _run(*_command(tmp_path))
    assert status == 0, output
    run = _only_run(tmp_path)
    told = json.loads((run / "run.json").read_text())
    assert told["status"] == "complete"
    assert set(told["arms"]) == {"none", "mtp", "dflash2"}
    assert told["arms"]["dflash2"]["readiness"]["drafter_architecture"] == "DFlash2DraftModel"
    for arm in ("none", "mtp", "dflash2"):
        cell = json.loads((run / arm / "c1-r1" / "cell.json").read_text())
        assert cell["status"] == "ok", cell["findings"]
        assert cell["num_failed"] == 0
        records = (run / arm / "c1-r1" / "requests.jsonl").read_text().splitlines()
        assert len(records) == cell["num_requests"] == 3
    for name in ("report.html", "report.md", "acceptance.png", "throughput.png", "summary.json"):
        assert (run / name).stat().st_size > 1000, name
    assert "does not predict a GPU" in output
    assert "Traceback" not in output
    assert not re.search(r"\bNone\b|\bnan\b", (run / "report.md").read_text())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_stopped_in_mid_run_nothing_is_left_running_and_the_same_command_goes_on(
    tmp_path: Path, root: Path, python: Path, number: signal.Signals
) -> None:
    del python
    plan = tmp_path / "two-rounds.yml"
    text = (root / "bench/plans/smoke.yml").read_text()
    plan.write_text(text.replace("name: smoke", "name: two-rounds").replace("rounds: 1", "rounds: 40"))
    results = tmp_path / "results"
    command = _command(results, "tiny-next-cpu", "--arm", "dflash2", "--plan", str(plan))
    environment = {**os.environ, "SPECDECK_TEST_RUN": str(results)}
    log = tmp_path / "output"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        _wait(lambda: bool(CELL.search(log.read_text())) or process.poll() is not None, "the first cell", 300)
        assert process.poll() is None, log.read_text()
        port = int(re.findall(r"starting vLLM on port (\d+)", log.read_text())[0])
        process.send_signal(number)
        status = process.wait(timeout=60)
    finally:
        process.kill()
    _wait(lambda: not _listening(port), f"port {port} to be free", 60)
    assert not _servers_of(results)
    assert status != 0
    if number != signal.SIGKILL:
        assert status == 2
        assert "interrupted" in log.read_text()
        assert "Fix:" in log.read_text()
    assert "Traceback" not in log.read_text()
    kept = {path.parent for path in results.glob("*/dflash2/*/cell.json")}
    assert kept
    assert json.loads((_only_run(results) / "run.json").read_text())["status"] == "running"
    if number == signal.SIGKILL:
        _goes_on(command, log, kept)


def _goes_on(command: list[str], log: Path, kept: set[Path]) -> None:
    before = {path: path.stat().st_mtime_ns for path in kept}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        _wait(lambda: bool(re.search(r"c1-r\d+: \d+ requests", log.read_text())), "another cell", 300)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert "continuing" in log.read_text()
    assert {path: path.stat().st_mtime_ns for path in kept} == before


def _listening(port: int) -> bool:
    return any(
        c.laddr and c.laddr.port == port and c.status == psutil.CONN_LISTEN for c in psutil.net_connections("tcp")
    )


@in_session_loop
async def test_servers_that_already_run_are_measured_and_left_running(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    none, dflash2 = await live("none"), await live("dflash2")
    status, output = await _run(
        *_command(tmp_path, "tiny-next-cpu"),
        *("--base-url", f"none={none.server.base_url}", "--base-url", f"dflash2={dflash2.server.base_url}/v1"),
    )
    assert status == 0, output
    told = json.loads((_only_run(tmp_path) / "run.json").read_text())
    assert told["arms"]["dflash2"]["num_speculative_tokens"] == 7
    assert none.server.exit_status() is None
    assert dflash2.server.exit_status() is None


@in_session_loop
async def test_a_server_of_unknown_recipe_tells_its_own_draft_length(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    mtp = await live("mtp")
    status, output = await _run(*_command(tmp_path, "--base-url", mtp.server.base_url, "--prompts", "tiny-next"))
    assert status == 0, output
    told = json.loads((_only_run(tmp_path) / "run.json").read_text())
    assert told["arms"]["server"]["num_speculative_tokens"] == 3


@in_session_loop
async def test_an_arm_that_claims_to_be_what_it_is_not_fails_and_the_others_are_reported(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    none, mtp = await live("none"), await live("mtp")
    status, output = await _run(
        *_command(tmp_path, "tiny-next-cpu"),
        *("--base-url", f"none={none.server.base_url}", "--base-url", f"dflash2={mtp.server.base_url}"),
    )
    assert status == 1, output
    assert "arm dflash2 failed" in output
    assert "Fix:" in output
    assert (_only_run(tmp_path) / "report.md").exists()
