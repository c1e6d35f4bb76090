"""A container as a `docker run` command that a person can read, change and run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from specdeck.container.spec import PORT, SECRETS

if TYPE_CHECKING:
    from specdeck.container.spec import ContainerSpec


def run_command(spec: ContainerSpec) -> str:
    """Return the command for a POSIX shell that starts the same server. Secrets appear as the files they are in."""
    lines = [
        f"docker run --rm --init --name {spec.name}",
        *(["--gpus " + shlex.quote(f'"device={",".join(spec.gpus)}"')] if spec.gpus else []),
        f"--shm-size {spec.shm_size}" if spec.shm_size else "--ipc host",
        *([f"--user {spec.user}"] if spec.user else []),
        f"--publish {_address(spec.host)}:{spec.port}:{PORT}",
        *(f"--label {shlex.quote(f'{name}={value}')}" for name, value in spec.labels.items()),
        *(_mount(m.source, m.target, read_only=m.read_only) for m in spec.mounts),
        *(_mount(path, f"{SECRETS}/{name}", read_only=True) for name, path in spec.secrets.items()),
        *(f"--env {shlex.quote(f'{name}={value}')}" for name, value in spec.env.items()),
        f"--entrypoint {shlex.quote(spec.argv[0])}",
        spec.image,
        *_options(spec.argv[1:]),
    ]
    return " \\\n  ".join(lines)


def _options(words: tuple[str, ...]) -> list[str]:
    """One option a line, with its values."""
    lines: list[str] = []
    for word in words:
        if lines and not word.startswith("--") and lines[-1].startswith("--"):
            lines[-1] += f" {shlex.quote(word)}"
        else:
            lines.append(shlex.quote(word))
    return lines


def _mount(source: str, target: str, *, read_only: bool) -> str:
    text = f"type=bind,source={source},target={target}" + (",readonly" if read_only else "")
    return f"--mount {shlex.quote(text)}"


def _address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
