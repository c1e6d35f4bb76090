"""A Docker engine of the tests' own, without networks and with all it stores in one folder, and a base image for it.

Nothing of the machine's Docker engine is used or changed. Where none can be started, the reason is returned.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.image.docker_cli import Docker

if TYPE_CHECKING:
    from pathlib import Path

BASE = "specdeck-test/debian:bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "python3,python3-venv,ca-certificates,libnuma1,git"
START_SECONDS = 60


@dataclass
class Engine:
    """A running engine."""

    docker: Docker
    socket: Path
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def url(self) -> str:
        """What DOCKER_HOST must be."""
        return f"unix://{self.socket}"

    def stop(self) -> None:
        """End the engine and remove everything that it stored."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Left mounted by the engine; a folder with a mount in it cannot be removed.
        subprocess.run(["umount", str(self.folder / "exec/netns/default")], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def missing() -> str | None:
    """Say why no engine can be started here; None when one can."""
    if os.geteuid() != 0:
        return "not root, and a Docker engine of its own needs it"
    if shutil.which("dockerd") is None:
        return "dockerd is not installed (Debian: apt-get install docker.io)"
    return None


def start(folder: Path) -> Engine | str:
    """Start an engine in a new folder; return why it could not be."""
    folder.mkdir(parents=True)
    socket = folder / "s"
    program = next(name for name in ("/usr/bin/docker", shutil.which("docker") or "docker") if shutil.which(name))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("dockerd", "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                *("--pidfile", str(folder / "pid"), "-H", f"unix://{socket}", "--iptables=false", "--bridge=none"),
            ],
            stdout=log,
            stderr=log,
        )
    engine = Engine(Docker(program), socket, process, folder)
    os.environ["DOCKER_HOST"] = engine.url
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if engine.docker.output("version") is not None:
            return engine
        time.sleep(0.2)
    last = (folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
    engine.stop()
    return f"dockerd does not start: {' / '.join(last)}"


def import_base(engine: Engine, cache: Path) -> str | None:
    """Import a debootstrapped Debian as BASE, kept as an archive in `cache`; return why it could not be."""
    archive = cache / "bookworm.tar"
    if not archive.is_file():
        if shutil.which("debootstrap") is None:
            return "debootstrap is not installed (Debian: apt-get install debootstrap)"
        cache.mkdir(parents=True, exist_ok=True)
        root = engine.folder / "root"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root), MIRROR],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode != 0:
            return f"debootstrap failed: {' / '.join(done.stdout.strip().splitlines()[-2:])}"
        partial = cache / "bookworm.tar.part"
        exclude = ["--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*", "--exclude=./dev/*"]
        subprocess.run(["tar", "--numeric-owner", *exclude, "-C", str(root), "-cf", str(partial), "."], check=True)
        shutil.rmtree(root)
        partial.replace(archive)
    engine.docker.require("import", str(archive), BASE, timeout=300)
    return None
