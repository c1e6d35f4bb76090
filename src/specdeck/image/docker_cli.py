"""The `docker` command line, for builds alone: BuildKit is not reachable through the Docker SDK.

A container's life (create, start, stop) is the runtime's, which uses the SDK.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.errors import EXIT_FAILED, SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

QUICK_SECONDS = 300
BUILD_SECONDS = 6 * 3600
SHOWN_LINES = 15
_STAGE = re.compile(r"#\d+ (\[.*\] .*|ERROR.*|CACHED)$")
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
_FIRST_WITHOUT_OWN = 23  # from this version on the command line needs the buildx plugin for BuildKit


@dataclass(frozen=True)
class Docker:
    """A docker command that can build with BuildKit."""

    program: str

    def output(self, *words: str, stdin: str | None = None) -> str | None:
        """Run a short command and return its output; None where it failed."""
        done = self._run(words, stdin)
        return done.stdout if done.returncode == 0 else None

    def require(self, *words: str, stdin: str | None = None, timeout: float = QUICK_SECONDS) -> str:
        """Run a command and return its output.

        Raises:
            SpecdeckError: it failed; with the last lines of what it said.
        """
        done = self._run(words, stdin, timeout)
        if done.returncode != 0:
            raise SpecdeckError(
                f"docker {words[0]} failed{_tail(done.stderr.splitlines())}",
                where=" ".join(words[-2:]),
                fix=f"see what it says: {self.program} {' '.join(words[:3])} …",
            )
        return done.stdout

    def build(self, words: Sequence[str], log: Path, progress: Callable[[str], None]) -> None:
        """Build an image; every line goes to the log, and each step to `progress`.

        Raises:
            SpecdeckError: the build failed, with its last lines; or it took too long.
        """
        command = [self.program, "build", "--progress", "plain", *words]
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        with log.open("a", buffering=1, encoding="utf-8") as file, _started(command) as process:
            assert process.stdout is not None
            timer = threading.Timer(BUILD_SECONDS, process.kill)
            timer.daemon = True
            timer.start()
            try:
                _follow(process.stdout, file, last, progress)
                status = process.wait()
            finally:
                timer.cancel()
        if status != 0:
            raise SpecdeckError(
                f"the image could not be built{_tail(list(last))}",
                where=str(log),
                fix=f"mend what the last lines say; everything is in the log: less '{log}'",
                exit_code=EXIT_FAILED,
            )

    def _run(
        self, words: Sequence[str], stdin: str | None, timeout: float = QUICK_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self.program, *words],
                env=_environment(),
                input=stdin or "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SpecdeckError(
                f"docker {words[0]} did not end within {timeout:.0f} s",
                fix="see whether the Docker engine answers: docker version",
            ) from None


def find_docker() -> Docker:
    """Find a docker command that can build with BuildKit, and whose engine answers.

    Raises:
        SpecdeckError: there is none; says which part is missing.
    """
    candidates = [shutil.which("docker"), "/usr/bin/docker"]
    programs = [name for name in dict.fromkeys(candidates) if name and os.access(name, os.X_OK)]
    if not programs:
        raise SpecdeckError("docker is not installed", fix="install it (Debian: apt-get install docker.io)")
    able = [Docker(program) for program in programs if _has_buildkit(Docker(program))]
    if not able:
        raise SpecdeckError(
            "this docker cannot build with BuildKit",
            where=programs[0],
            fix="install its plugin (Debian and Ubuntu: apt-get install docker-buildx)",
        )
    if able[0].output("version", "--format", "{{.Server.Version}}") is None:
        raise SpecdeckError(
            "the Docker engine does not answer",
            where=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"),
            fix="start it and join its group: sudo systemctl start docker; sudo usermod -aG docker $USER",
        )
    return able[0]


def pinned(docker: Docker, reference: str, progress: Callable[[str], None]) -> tuple[str, str | None]:
    """Return a base image by digest, pulling it unless it is here.

    Returns:
        What to build from, and the digest; None where the image came from no registry.

    Raises:
        SpecdeckError: it is neither here nor can be pulled.
    """
    named = _DIGEST.search(reference)
    found = docker.output("image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', reference)
    if found is None:
        progress(f"pulling {reference}")
        docker.require("pull", "--quiet", reference, timeout=BUILD_SECONDS)
        found = docker.require("image", "inspect", "--format", '{{join .RepoDigests "\\n"}}', reference)
    if named:
        return reference, named.group(1)
    for line in found.split():
        digest = _DIGEST.search(line)
        if digest:
            return line, digest.group(1)
    return reference, None


def _has_buildkit(docker: Docker) -> bool:
    if docker.output("buildx", "version") is not None:
        return True
    version = docker.output("--version") or ""
    found = re.search(r"version (\d+)\.", version)
    return found is not None and int(found.group(1)) < _FIRST_WITHOUT_OWN


def _environment() -> dict[str, str]:
    return os.environ | {"DOCKER_BUILDKIT": "1", "DOCKER_SCAN_SUGGEST": "false"}


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            # Docker cancels the build when its command line is asked to end.
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _follow(lines: IO[str], log: IO[str], last: deque[str], progress: Callable[[str], None]) -> None:
    for line in lines:
        log.write(line)
        text = line.rstrip()
        if text and " sha256:" not in text:
            last.append(text)
        step = _STAGE.match(text)
        if step:
            shown = step.group(1)
            progress(shown if len(shown) <= 100 else f"{shown[:99]}…")


def _tail(lines: Sequence[str]) -> str:
    return "".join(f"\n  | {line}" for line in [line for line in lines if line.strip()][-SHOWN_LINES:])
