"""Runs one server and guarantees that nothing of it outlives the harness. Standard library only; started as a script.

Two processes watch each other: the guard (the one that was started) and its child, which runs the server. Both are
subreapers, so a descendant that leaves its process group or session still becomes theirs. Whichever is killed, or when
the harness goes away (its end of our standard input closes), the other one ends every descendant.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MAX_REQUEST = 4 * 2**20
_POLL_S = 0.02
_LEFTOVER_S = 3.0
_WAKE_S = 5.0


def main() -> int:
    """Read the request (one line of JSON) from standard input, run the server, report events on standard output."""
    request = json.loads(_first_line(0))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # not inherited
            _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() == guard:
                _Supervisor(request).run()
                status = 0
        finally:
            os._exit(status)
    return _guard(child, request)


def _guard(child: int, request: dict[str, Any]) -> int:
    def forward(number: int, _frame: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            break
    if status != 0:
        _say({"event": "lost"})
        left = _end_all(request["term_timeout_s"], request["kill_timeout_s"])
        _say({"event": "stopped", "left": left, "port_free": _port_free(request)})
    return 0


class _Supervisor:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.server = 0
        self.status: int | None = None
        self.stopping = False
        self.now = False

    def run(self) -> None:
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.stop)
        if not self.start():
            return
        while self.status is None and not self.stopping:
            ready, _, _ = select.select([0, wake_read], [], [], _WAKE_S)
            if wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake_read, 4096)
            if 0 in ready:
                self.listen()
            self.reap()
        if self.status is None:
            self.end_server()
        _say({"event": "exited", "status": self.status})
        left = _end_all(0 if self.now else _LEFTOVER_S, self.request["kill_timeout_s"])
        _say({"event": "stopped", "left": left, "port_free": _port_free(self.request)})

    def start(self) -> bool:
        request = self.request
        supervisor = os.getpid()

        def tie() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)

        try:
            log = os.open(request["log_path"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            process = subprocess.Popen(
                request["argv"],
                env=request["env"],
                cwd=request["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=tie,  # noqa: PLW1509 - this process has one thread
            )
        except OSError as error:
            _say({"event": "failed", "message": error.strerror, "path": error.filename, "errno": error.errno})
            _say({"event": "stopped", "left": [], "port_free": True})
            return False
        os.close(log)
        self.server = process.pid
        process.returncode = 0  # reaped here, by reap(), never by Popen
        _say({"event": "started", "pid": self.server})
        return True

    def stop(self, _number: int, _frame: Any) -> None:
        self.stopping = True

    def listen(self) -> None:
        words = os.read(0, 4096)
        self.now = b"kill" in words
        self.stopping = True

    def reap(self) -> None:
        for pid, status in _reaped():
            if pid == self.server:
                self.status = os.waitstatus_to_exitcode(status)

    def end_server(self) -> None:
        deadline = time.monotonic() + (0 if self.now else self.request["term_timeout_s"])
        _signal_group(self.server, signal.SIGTERM)
        while self.status is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            self.reap()
        if self.status is None:
            _signal_group(self.server, signal.SIGKILL)
            deadline = time.monotonic() + self.request["kill_timeout_s"]
            while self.status is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                self.reap()


def _end_all(term_timeout_s: float, kill_timeout_s: float) -> list[int]:
    """End every descendant: SIGTERM, a bounded wait, SIGKILL. Return the pids that are still there."""
    for pid in _descendants():
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + term_timeout_s
    while _alive() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    deadline = time.monotonic() + kill_timeout_s
    while (left := _alive()) and time.monotonic() < deadline:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    return left


def _alive() -> list[int]:
    _reaped()
    return _descendants()


def _reaped() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def _descendants() -> list[int]:
    """Return all live descendants of this process, found through parents in /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _prctl(what: int, value: int) -> None:
    """Linux only; elsewhere the process group is all there is."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(what, value, 0, 0, 0)


def _port_free(request: dict[str, Any]) -> bool:
    family = socket.AF_INET6 if ":" in request["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((request["host"], request["port"]))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def _say(event: dict[str, Any]) -> None:
    """Report to the harness, which may be gone."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(event).encode() + b"\n")


def _first_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        block = os.read(fd, 65536)
        line += block
        if not block or len(line) > _MAX_REQUEST:
            sys.exit(2)
    return line


if __name__ == "__main__":
    sys.exit(main())
