"""Runtime `local`: starts a server on this machine under a supervisor, and ends it with everything it started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from specdeck.engine import logs, ports, supervise
from specdeck.engine.runtime import LAST_LINES
from specdeck.errors import EXIT_FAILED, SpecdeckError

if TYPE_CHECKING:
    from specdeck.engine.command import EngineCommand

TERM_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 30.0
_POLL_S = 0.05
_MARK = "SPECDECK_SERVER"
_KILLED = -9


class LocalServer:
    """A server under a supervisor. The supervisor lives as long as our end of its standard input is open."""

    def __init__(
        self,
        supervisor: subprocess.Popen[bytes],
        command: EngineCommand,
        log_path: Path,
        mark: str,
        api_key: str | None,
    ) -> None:
        self.base_url = f"http://{reachable(command.host)}:{command.port}"
        self.served_model = command.served_model
        self.api_key = api_key
        self.log_path: Path | None = log_path
        self.pid: int | None = None
        self._supervisor = supervisor
        self._command = command
        self._mark = mark
        self._rest = b""
        self._ended = False
        self._status: int | None = None
        self._failure: dict[str, Any] | None = None
        self._left: list[int] | None = None
        self._done = False

    def exit_status(self) -> int | None:
        """Return how the server ended, or None while it runs."""
        self._listen()
        if self._status is None and self._ended:
            self._status = _KILLED
        return self._status

    def last_log(self, n: int = LAST_LINES) -> list[str]:
        """Return the last `n` lines of the log."""
        return logs.tail(self.log_path, n) if self.log_path else []

    async def stop(self, *, now: bool = False) -> None:
        """End the server and all its descendants, and see that they are gone and the port is free.

        Args:
            now: do not wait for a clean end.

        Raises:
            SpecdeckError: something could not be ended, or the port is still taken.
        """
        if self._done:
            return
        self._ask_to_stop(now=now)
        deadline = time.monotonic() + TERM_TIMEOUT_S + 2 * KILL_TIMEOUT_S + 5
        while not self._ended and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)
            self._listen()
        if not self._ended:
            self._supervisor.kill()
        if self._left is None or self._left:
            await _sweep(self._mark)
        self._supervisor.wait()
        if self._supervisor.stdout:
            self._supervisor.stdout.close()
        self._done = True
        ports.release(self._command.port)
        if ports.answers(self._command.host, self._command.port):
            raise SpecdeckError(
                f"the server was stopped, yet port {self._command.port} still answers: "
                f"{ports.owner(self._command.port) or 'its owner cannot be seen'}",
                where=self.base_url,
                fix="end that process before anything is measured",
                exit_code=EXIT_FAILED,
            )

    def send(self, request: dict[str, Any]) -> None:
        """Hand the request to the supervisor; variables travel through the pipe, never through a command line."""
        assert self._supervisor.stdin is not None
        try:
            self._supervisor.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise SpecdeckError(f"the supervisor could not be started: {error.strerror}", fix="try again") from error

    async def started(self) -> None:
        """Wait until the supervisor has started the program.

        Raises:
            SpecdeckError: it could not be started, or its log could not be opened.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.pid is None and self._failure is None and not self._ended and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S / 5)
            self._listen()
        if self.pid is not None:
            return
        failure = self._failure or {"message": "its supervisor gave no answer", "path": None}
        await self.stop(now=True)
        program = self._command.argv[0]
        raise SpecdeckError(
            f"the server could not be started: {failure['message']}",
            where=failure["path"] or program,
            fix="name an interpreter that has vLLM with --python"
            if failure["path"] == program
            else "check that path, its permissions and the free disk space (df -h)",
        )

    def _ask_to_stop(self, *, now: bool) -> None:
        pipe = self._supervisor.stdin
        if pipe is None or pipe.closed:
            if now and self.pid is not None and self.exit_status() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)  # asked for a second time: no more waiting
            return
        with contextlib.suppress(OSError):  # the supervisor may be gone already
            if now:
                pipe.write(b"kill\n")
        with contextlib.suppress(OSError):
            pipe.close()

    def _listen(self) -> None:
        """Read the events that have arrived; the end of the stream means that both supervisors are gone."""
        pipe = self._supervisor.stdout
        while pipe is not None and not self._ended:
            try:
                block = os.read(pipe.fileno(), 65536)
            except BlockingIOError:
                return
            self._ended = block == b""
            *lines, self._rest = (self._rest + block).split(b"\n")
            for line in lines:
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "started":
                self.pid = event["pid"]
            case "failed":
                self._failure = event
            case "exited":
                self._status = event["status"]
            case "lost":
                self._status = _KILLED
            case "stopped":
                self._left = event["left"]


async def start_local(command: EngineCommand, log_path: Path, *, port: int) -> LocalServer:
    """Start a server; its output goes to `log_path`. It has not proved anything yet: see readiness.

    Args:
        command: what to run.
        log_path: created, with its folder; an existing file is continued.
        port: the command's port; refused when somebody listens on it.

    Raises:
        SpecdeckError: the port is taken, or the program cannot be started.
    """
    ports.require_free(command.host, port)
    mark = secrets.token_hex(16)
    env = command.process_env(os.environ)
    supervisor = _spawn(log_path)
    server = LocalServer(supervisor, command, log_path, mark, env.get("VLLM_API_KEY"))
    try:
        server.send(_request(command, env | {_MARK: mark}, log_path, port))
        await server.started()
    except BaseException:
        await server.stop(now=True)
        raise
    return server


def _spawn(log_path: Path) -> subprocess.Popen[bytes]:
    log_path.parent.mkdir(parents=True, exist_ok=True)
    supervisor = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(supervise.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,  # Ctrl-C reaches the harness alone, which then stops the server in order
    )
    assert supervisor.stdout is not None
    os.set_blocking(supervisor.stdout.fileno(), False)
    return supervisor


def _request(command: EngineCommand, env: dict[str, str], log_path: Path, port: int) -> dict[str, Any]:
    return {
        "argv": list(command.argv),
        "env": env,
        "cwd": str(log_path.parent.absolute()),
        "log_path": str(log_path.absolute()),
        "host": command.host,
        "port": port,
        "term_timeout_s": TERM_TIMEOUT_S,
        "kill_timeout_s": KILL_TIMEOUT_S,
    }


async def _sweep(mark: str) -> None:
    """Last resort, when both supervisors were killed: end every process that carries this server's mark."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while time.monotonic() < deadline:
        found = [process for process in psutil.process_iter() if _carries(process, mark)]
        if not found:
            return
        for process in found:
            try:
                process.kill()
            except psutil.Error:
                continue
        await asyncio.sleep(_POLL_S)


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def reachable(host: str) -> str:
    """Return the host of a URL that reaches a server listening on `host` from this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"[{shown}]" if ":" in shown else shown
