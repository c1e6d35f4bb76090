"""A Docker engine of the tests' own, on a socket and a bridge of its own, gone with everything in it afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import docker.errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

START_S = 60
STOP_S = 60
IMAGE = "specdeck-test/shell:1"


def why_not() -> str | None:
    """Say why no engine can be started here; None where one can."""
    if os.getuid() != 0:
        return "not root"
    missing = [name for name in ("dockerd", "docker", "docker-proxy", "ip") if _program(name) is None]
    return f"{', '.join(missing)} is not installed" if missing else None


@contextlib.contextmanager
def engine() -> Iterator[DockerClient]:
    """Run dockerd with DOCKER_HOST set to it.

    Raises:
        RuntimeError: it did not start; says what it wrote.
    """
    folder = Path(tempfile.mkdtemp(prefix="sd-"))
    bridge, number = f"sdk{os.getpid()}", os.getpid() % 250
    dockerd, ip = _program("dockerd"), _program("ip")
    assert dockerd is not None
    assert ip is not None
    process: subprocess.Popen[bytes] | None = None
    address = f"unix://{folder}/socket"
    before = os.environ.get("DOCKER_HOST")
    try:
        for words in (
            ["link", "add", bridge, "type", "bridge"],
            ["addr", "add", f"10.213.{number}.1/24", "dev", bridge],
        ):
            subprocess.run([ip, *words], check=True, capture_output=True)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    dockerd, "--data-root", folder / "data", "--exec-root", folder / "exec",
                    "--pidfile", folder / "pid", "--host", address, "--bridge", bridge,
                    "--iptables=false", "--ip-masq=false",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        os.environ["DOCKER_HOST"] = address
        client = _reached(process, folder / "log")
        try:
            yield client
        finally:
            for container in client.containers.list(all=True):
                container.remove(force=True, v=True)
            client.close()
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["umount", folder / "exec" / "netns" / "default"], check=False, capture_output=True)
        subprocess.run([ip, "link", "del", bridge], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def shell_image(client: DockerClient) -> str:
    """Import an image that holds this machine's shell, cat and sleep with their libraries; return its name."""
    names = [name for name in ("bin", "lib", "lib64") if Path("/", name).is_symlink()]
    names += [str(path)[1:] for name in ("dash", "sh", "cat", "sleep") for path in [Path("/usr/bin", name)]]
    linked = subprocess.run(["ldd", "/usr/bin/dash", "/usr/bin/cat"], capture_output=True, text=True, check=True).stdout
    libraries = {word for word in linked.split() if word.startswith("/lib/")}
    real = {str(Path(path).resolve()) for path in libraries | {"/lib64/ld-linux-x86-64.so.2"}}
    links = {f"usr{path}" if Path("/lib").is_symlink() else path[1:] for path in libraries}
    names += sorted(links | {path[1:] for path in real} | {"usr/lib64"})
    tar = subprocess.Popen(["tar", "-c", "-C", "/", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    command = ["docker", "import", "--change", "ENV PATH=/usr/bin", "-", IMAGE]
    done = subprocess.run(command, stdin=tar.stdout, capture_output=True, text=True, check=False)
    tar.wait()
    if done.returncode:
        raise RuntimeError(f"docker import: {done.stderr}")
    return IMAGE


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _reached(process: subprocess.Popen[bytes], log: Path) -> DockerClient:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(docker.errors.DockerException, OSError):
            client = docker.from_env()
            client.ping()
            return client
        time.sleep(0.2)
    raise RuntimeError(f"dockerd did not start:\n{log.read_text(errors='replace')[-2000:]}")
