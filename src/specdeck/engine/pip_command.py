"""Runs the installer's commands: bounded in time, with a sign of life, and failures a person can act on."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HEARTBEAT_SECONDS = 15
KEPT_LINES = 400
# Each would put packages somewhere else than into the environment, or load others from elsewhere.
FOREIGN = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_DRY_RUN", "PYTHONPATH", "PYTHONHOME")
UNAVAILABLE = ("No matching distribution found", "DO NOT MATCH THE HASHES")
OFFLINE = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "NewConnectionError",
    "Network is unreachable",
    "Connection refused",
    "ConnectTimeoutError",
    "Read timed out",
    "ProxyError",
)


class CommandFailed(Exception):  # noqa: N818 - it carries a result, and is turned into an error by explain()
    """A command that ended badly or did not end in time."""

    def __init__(self, command: Sequence[str], output: str, status: int | None) -> None:
        super().__init__(f"{command[0]} failed")
        self.command = command
        self.output = output
        self.status = status

    @property
    def unavailable(self) -> bool:
        """Return whether the index answered and simply has not what was asked for."""
        return any(sign in self.output for sign in UNAVAILABLE) and "No space left" not in self.output


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would lead pip or Python astray."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def run_command(
    command: Sequence[str],
    *,
    timeout: float,
    progress: Callable[[str], None] | None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its last lines of output; end it and all it started if it outlives `timeout` seconds.

    Raises:
        CommandFailed: it exited with another status than 0, or took too long.
    """
    process = subprocess.Popen(
        command,
        env=dict(environment if environment is not None else clean_environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    reader = threading.Thread(target=_collect, args=(process, kept), daemon=True)
    reader.start()
    started = time.monotonic()
    try:
        while (spent := time.monotonic() - started) < timeout:
            try:
                status = process.wait(min(HEARTBEAT_SECONDS, timeout - spent))
            except subprocess.TimeoutExpired:
                if progress is not None:
                    progress(f"  … {time.monotonic() - started:.0f} s: {_doing(kept)}")
                continue
            reader.join(5)
            output = "".join(kept)
            if status != 0:
                raise CommandFailed(command, output, status)
            return output
        raise CommandFailed(command, "".join(kept), None)
    finally:
        if process.poll() is None:
            _end(process)


def _collect(process: subprocess.Popen[str], kept: deque[str]) -> None:
    assert process.stdout is not None
    kept.extend(iter(process.stdout.readline, ""))


def _doing(kept: deque[str]) -> str:
    """Return what pip last said it was doing."""
    for line in reversed(tuple(kept)):
        words = line.split()
        if words and words[0] in {"Collecting", "Downloading", "Installing", "Using"}:
            return " ".join(words[:2] if words[0] != "Installing" else words[:3])
    return "working"


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
        return


def explain(failure: CommandFailed, venv: Path) -> SpecdeckError:
    """Return the error a person sees for a failed installation command."""
    output = failure.output
    again = "then run the same command again"
    if failure.status is None:
        what, fix = "the installation took too long and was ended", f"check the network's speed, {again}"
    elif "No space left" in output:
        what, fix = "the disk is full", f"free space on the file system of {venv.parent}, {again}"
    elif any(sign in output for sign in OFFLINE):
        what = "the package index cannot be reached"
        fix = f"connect to the network or set pip's proxy or index, {again}"
    elif "DO NOT MATCH THE HASHES" in output:
        what = "a downloaded package is not the one that the lock file names"
        fix = f"pip cache purge, {again}; if it stays, the index serves altered files: do not install them"
    elif "No matching distribution found" in output:
        what = "the package index has not what the lock file names"
        fix = f"point pip at an index that mirrors all of the public one, {again}"
    elif "ensurepip" in output:
        what, fix = "this Python cannot create virtual environments", f"apt-get install python3-venv, {again}"
    else:
        what, fix = "a command of the installation failed", f"mend what it says above, {again}"
    last = [line.rstrip() for line in output.splitlines() if line.strip()][-6:]
    detail = "".join(f"\n  | {line}" for line in last)
    return SpecdeckError(f"the engine could not be installed: {what}{detail}", where=str(venv), fix=fix)
