"""`specdeck serve` in the foreground: dry run, refusals, Ctrl-C, crashes. The server is a double of vLLM."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from support.checkout import RECIPE
from support.processes import wait_until

from specdeck.engine import ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.checkout import Checkout

DOUBLE = Path(__file__).with_name("double_vllm.py")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter in whose place the double runs; it passes for one that has vLLM."""
    path = tmp_path / "an env" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = -c ]; then exit 0; fi\nexec "{sys.executable}" "{DOUBLE}" "$@"\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """A test that fails half-way leaves no server behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.communicate()


def serve(checkout: Checkout, *words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "specdeck", "serve", "r", *words],
        env={**os.environ, "SPECDECK_ROOT": str(checkout.root), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    return process


def until_ready(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if "stop   Ctrl-C" in line:
            return lines
    pytest.fail("it never became ready:\n" + "\n".join(lines) + (process.stderr.read() if process.stderr else ""))


def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    return process.communicate(timeout=60)


def free() -> int:
    port = ports.free_port()
    ports.release(port)
    return port


def only_rules(err: str) -> bool:
    """Whether nothing but what the rules say stands there."""
    return all(line.startswith(("specdeck: ", "warning: ", "  ")) for line in err.splitlines())


def test_a_dry_run_prints_the_command_and_needs_no_engine(checkout: Checkout) -> None:
    out, err = finished(process := serve(checkout, "--dry-run", "--port", "8123", "--arm", "mtp"))
    assert process.returncode == 0
    assert only_rules(err)
    assert out.startswith("env -i")
    assert "--port 8123" in out
    assert '{"method":"mtp","num_speculative_tokens":3}' in out


def test_the_arm_with_the_drafter_is_the_default(checkout: Checkout) -> None:
    out, _ = finished(serve(checkout, "--dry-run"))
    assert '"method":"dflash"' in out


def test_a_secret_in_the_environment_is_printed_by_name_only(checkout: Checkout) -> None:
    out, err = finished(serve(checkout, "--dry-run", env={"VLLM_API_KEY": "sesame-4711"}))
    assert 'VLLM_API_KEY="$VLLM_API_KEY"' in out
    assert "sesame" not in out + err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--arm", "dflash"), "did you mean dflash2?"),
        (("--runtime", "podman"), "no runtime 'podman'"),
        (("--python", "/nowhere/python"), "no Python interpreter there"),
    ],
)
def test_a_mistake_on_the_command_line_is_refused_at_once(
    checkout: Checkout, words: tuple[str, ...], says: str
) -> None:
    out, err = finished(process := serve(checkout, *words))
    assert (process.returncode, out) == (2, "")
    assert says in err
    assert "Fix:" in err
    assert "Traceback" not in err


def test_a_taken_port_is_refused_by_the_name_of_its_owner(checkout: Checkout, python: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        _, err = finished(process := serve(checkout, "--python", str(python), "--port", str(port)))
    assert process.returncode == 2
    assert f"port {port} is taken by pid {os.getpid()}" in err


def test_a_served_arm_is_announced_when_proved_and_ctrl_c_leaves_nothing_running(
    checkout: Checkout, python: Path
) -> None:
    port = free()
    process = serve(checkout, "--python", str(python), "--port", str(port), "--arm", "none")
    lines = until_ready(process)
    assert lines[0].startswith("env -i")
    assert any("Starting vLLM server" in line for line in lines), "the log is on the terminal"
    assert any(line.startswith("specdeck: ready after") for line in lines)
    assert f"  URL    http://127.0.0.1:{port}/v1" in lines
    below = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert below
    process.send_signal(signal.SIGINT)
    out, err = finished(process)
    assert process.returncode == 0
    assert only_rules(err)
    assert "stopping the server" in out
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in below), "everything is gone")
    ports.require_free("127.0.0.1", port)


def test_ctrl_c_before_it_is_ready_is_no_success(checkout: Checkout, python: Path) -> None:
    port = free()
    process = serve(checkout, "--python", str(python), "--port", str(port), "--arm", "none", env={"TMPDIR": "hang"})
    wait_until(lambda: ports.answers("127.0.0.1", port), "it listens")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    out, _ = finished(process)
    assert process.returncode == 2
    assert "before the server was ready" in out
    ports.require_free("127.0.0.1", port)


def test_a_server_that_crashes_while_loading_ends_with_status_1_and_its_first_error(
    checkout: Checkout, python: Path
) -> None:
    process = serve(checkout, "--python", str(python), "--port", str(free()), "--arm", "none", env={"TMPDIR": "crash"})
    _, err = finished(process)
    assert process.returncode == 1
    assert "first error: ValueError: bad head size 32" in err
    assert "Fix:" in err


def test_a_server_that_crashes_while_serving_ends_with_status_1(checkout: Checkout, python: Path) -> None:
    port = free()
    process = serve(checkout, "--python", str(python), "--port", str(port), "--arm", "none")
    until_ready(process)
    os.kill(next(p.pid for p in psutil.process_iter(["cmdline"]) if _is_server(p, port)), signal.SIGKILL)
    _, err = finished(process)
    assert process.returncode == 1
    assert "was ended by signal 9" in err


def test_a_server_that_hangs_is_stopped_at_the_recipes_limit(checkout: Checkout, python: Path) -> None:
    port = free()
    checkout.recipe("r", RECIPE.replace("environment: cpu", "environment: cpu, ready_timeout_s: 1.5"))
    process = serve(checkout, "--python", str(python), "--port", str(port), "--arm", "none", env={"TMPDIR": "hang"})
    _, err = finished(process)
    assert process.returncode == 1
    assert "raise engine.ready_timeout_s" in err
    ports.require_free("127.0.0.1", port)


def test_a_server_that_drafts_although_the_arm_has_no_drafter_is_refused(checkout: Checkout, python: Path) -> None:
    process = serve(checkout, "--python", str(python), "--port", str(free()), "--arm", "none", env={"TMPDIR": "drafts"})
    _, err = finished(process)
    assert process.returncode == 1
    assert "not what arm none claims to be" in err


def _is_server(process: psutil.Process, port: int) -> bool:
    words = process.info["cmdline"] or []
    return str(DOUBLE) in words and str(port) in words
