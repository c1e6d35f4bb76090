"""Ends a container when the process that asked for it is gone, so that no SIGKILL leaves a server on the GPUs.

Reads standard input: a line `done` means that everything was cleaned up, and its end without one that nobody is left.
"""

from __future__ import annotations

import subprocess
import sys

import docker
import docker.errors
import requests

STOP_S = 10


def watch(container_id: str, name: str) -> subprocess.Popen[bytes]:
    """Start a reaper for a container in a session of its own; it lives as long as its standard input is open."""
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "specdeck.container.reaper", container_id, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(reaper: subprocess.Popen[bytes]) -> None:
    """Tell a reaper that it is not needed any more, and see it go."""
    try:
        reaper.communicate(b"done\n", timeout=STOP_S)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        reaper.kill()
        reaper.wait()


def main(container_id: str, name: str) -> None:
    """Wait for the end of standard input, then stop and remove the container."""
    if sys.stdin.readline().strip() == "done":
        return
    from specdeck.container.secrets import forget  # noqa: PLC0415 - most reapers are dismissed

    try:
        container = docker.from_env().containers.get(container_id)
        container.stop(timeout=STOP_S)
        container.remove(force=True)
    except (docker.errors.DockerException, requests.RequestException):
        pass  # there is nobody left to tell
    forget(name)


if __name__ == "__main__":
    main(*sys.argv[1:3])
