"""Runtime `docker`: one server in a container, its log in a file, and nothing left of it after stop()."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import docker.errors
import requests
from docker.types import DeviceRequest, LogConfig, Mount

from specdeck.container import reaper as reapers
from specdeck.container.docker import refusals
from specdeck.container.secrets import forget
from specdeck.container.spec import PORT, SECRETS
from specdeck.engine import logs, ports
from specdeck.engine.local import reachable
from specdeck.engine.runtime import LAST_LINES
from specdeck.errors import EXIT_FAILED, EXIT_UNMEASURABLE, SpecdeckError

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from docker import DockerClient
    from docker.models.containers import Container

    from specdeck.container.spec import ContainerSpec

STOP_S = 10
_END_OF_LOG_S = 5.0
_ENGINE_BACK_S = 30.0
_KILLED = -9
_NANO = 1_000_000_000


class ContainerServer:
    """A server in a container. Two threads follow it: one copies its log, one waits for its end."""

    def __init__(self, container: Container, spec: ContainerSpec, log_path: Path, api_key: str | None) -> None:
        self.base_url = f"http://{reachable(spec.host)}:{spec.port}"
        self.served_model = spec.served_model
        self.api_key = api_key
        self.log_path: Path | None = log_path
        self.pid: int | None = container.attrs["State"]["Pid"] or None
        self.container = container
        self._spec = spec
        self._status: int | None = None
        self._reaper: subprocess.Popen[bytes] | None = None
        self._stopping = asyncio.Lock()
        self._done = False
        self._copier = threading.Thread(target=self._copy_log, args=(log_path,), daemon=True)
        self._waiter = threading.Thread(target=self._wait, daemon=True)

    def follow(self, *, reaper: bool) -> None:
        """Begin to copy the log and to wait for the end; with a reaper it ends with this process, however that ends."""
        if reaper:
            self._reaper = reapers.watch(str(self.container.id), self._spec.name)
        self._copier.start()
        self._waiter.start()

    def exit_status(self) -> int | None:
        """Return how the server ended (negative: by that signal), or None while it runs."""
        return self._status

    def last_log(self, n: int = LAST_LINES) -> list[str]:
        """Return the last `n` lines of the log."""
        return logs.tail(self.log_path, n) if self.log_path else []

    async def stop(self, *, now: bool = False) -> None:
        """Stop and remove the container, with the secrets that were kept for it; a second call does nothing.

        Args:
            now: do not wait for a clean end.

        Raises:
            SpecdeckError: it could not be removed, or the port still answers.
        """
        if now and not self._done:
            with contextlib.suppress(docker.errors.DockerException, requests.RequestException):
                await asyncio.to_thread(self.container.kill)
        async with self._stopping:
            if self._done:
                return
            await asyncio.to_thread(remove, self.container, self._spec.name, log=self._copier)
            self._done = True
            if self._reaper is not None:
                await asyncio.to_thread(reapers.dismiss, self._reaper)
            ports.release(self._spec.port)
        if ports.answers(self._spec.host, self._spec.port):
            raise SpecdeckError(
                f"the container was removed, yet port {self._spec.port} still answers: "
                f"{ports.owner(self._spec.port) or 'its owner cannot be seen'}",
                where=self.base_url,
                fix="end that process before anything is measured",
                exit_code=EXIT_FAILED,
            )

    async def detach(self) -> None:
        """Let the container run on without this process."""
        if self._reaper is not None:
            await asyncio.to_thread(reapers.dismiss, self._reaper)
            self._reaper = None
        ports.release(self._spec.port)
        self._done = True

    def _copy_log(self, path: Path) -> None:
        lost = (docker.errors.DockerException, requests.RequestException, OSError, ValueError)
        with contextlib.suppress(*lost), path.open("ab", buffering=0) as file:
            for block in self.container.logs(stream=True, follow=True):
                file.write(block)

    def _wait(self) -> None:
        """Note the exit status once the log is complete. An engine that restarts is waited for, but not for ever."""
        deadline = time.monotonic() + _ENGINE_BACK_S
        while True:
            try:
                code = int(self.container.wait(timeout=None)["StatusCode"])
                break
            except docker.errors.NotFound:
                code = 128 - _KILLED
                break
            except (docker.errors.DockerException, requests.RequestException):
                if time.monotonic() > deadline:
                    code = 128 - _KILLED
                    break
                time.sleep(1)
        self._copier.join(_END_OF_LOG_S)
        self._status = status_of(code)


def status_of(code: int) -> int:
    """Return an exit status as a process has it, negative for a signal; a shell and a container's init add 128."""
    return 128 - code if 128 < code < 160 else code


def start_container(
    client: DockerClient, spec: ContainerSpec, log_path: Path, *, api_key: str | None, reaper: bool = True
) -> ContainerServer:
    """Create and start a container; its output goes to `log_path`. It has not proved anything yet: see readiness.

    Args:
        client: the engine's connection.
        spec: what to start.
        log_path: continued if it exists.
        api_key: what requests must carry, for the harness; the container has it from `spec.secrets`.
        reaper: end the container with this process.

    Raises:
        SpecdeckError: the port or the name is taken, or the engine refuses.
    """
    ports.require_free(spec.host, spec.port)
    make_way(client, spec.name)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with refusals("the container cannot be created", where=spec.image):
        container: Container = client.containers.create(spec.image, **arguments(spec))
    try:
        with refusals("the container cannot be started", where=spec.name):
            container.start()
            container.reload()
        server = ContainerServer(container, spec, log_path, api_key)
        server.follow(reaper=reaper)
    except BaseException:
        remove(container, spec.name)
        raise
    return server


def arguments(spec: ContainerSpec) -> dict[str, Any]:
    """Return a spec as the arguments of `containers.create`."""
    mounts = [Mount(m.target, m.source, type="bind", read_only=m.read_only) for m in spec.mounts]
    mounts += [Mount(f"{SECRETS}/{name}", path, type="bind", read_only=True) for name, path in spec.secrets.items()]
    words: dict[str, Any] = {
        "name": spec.name,
        "entrypoint": list(spec.argv),
        "command": [],
        "environment": dict(spec.env),
        "ports": {f"{PORT}/tcp": (spec.host, spec.port)},
        "mounts": mounts,
        "labels": dict(spec.labels),
        "healthcheck": {
            "test": ["CMD", *spec.health],
            "interval": 10 * _NANO,
            "timeout": 10 * _NANO,
            "retries": 3,
            "start_period": spec.start_period_s * _NANO,
        },
        "init": True,
        "restart_policy": {"Name": spec.restart},
        "log_config": LogConfig(type="json-file", config={"max-size": "100m", "max-file": "3"}),
        "detach": True,
    }
    words |= {"shm_size": spec.shm_size} if spec.shm_size else {"ipc_mode": "host"}
    if spec.user:
        words["user"] = spec.user
    if spec.gpus:
        words["device_requests"] = [DeviceRequest(driver="nvidia", device_ids=list(spec.gpus), capabilities=[["gpu"]])]
    return words


def make_way(client: DockerClient, name: str) -> None:
    """Remove what an earlier server of this name has left.

    Raises:
        SpecdeckError: it still runs, or is not ours.
    """
    try:
        with refusals("an earlier container cannot be looked at", where=name):
            found = client.containers.list(all=True, filters={"name": f"^/?{name}$"})
    except SpecdeckError as error:
        error.exit_code = EXIT_UNMEASURABLE
        raise
    for container in found:
        if "io.specdeck.recipe" not in container.labels or container.status in ("running", "restarting", "paused"):
            raise SpecdeckError(
                f"there is a container of that name already, and it is {container.status}",
                where=name,
                fix=f"specdeck stop {name}, or another --port",
            )
        remove(container, name)


def remove(container: Container, name: str, *, log: threading.Thread | None = None) -> None:
    """Stop and remove a container, after its log has been read to the end, and forget its secrets.

    Raises:
        SpecdeckError: the engine refuses.
    """
    with refusals("the container cannot be removed", where=name):
        with contextlib.suppress(docker.errors.NotFound):
            container.stop(timeout=STOP_S)
            if log is not None and log.is_alive():
                log.join(_END_OF_LOG_S)
        with contextlib.suppress(docker.errors.NotFound):
            container.remove(force=True, v=True)
    forget(name)
