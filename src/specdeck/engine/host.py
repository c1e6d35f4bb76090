"""Whether this machine can run the managed CPU engine, asked before anything is downloaded."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from specdeck.errors import SpecdeckError

GIB = 2**30
OLDEST_PYTHON, FIRST_TOO_NEW = (3, 11), (3, 15)
OLDEST_GLIBC = (2, 28)
ELSEWHERE = "benchmark a server that runs elsewhere: specdeck bench RECIPE --base-url http://HOST:PORT"


@dataclass(frozen=True, slots=True)
class Host:
    """What of a machine decides whether the engine runs there."""

    system: str
    machine: str
    flags: frozenset[str]
    python: tuple[int, int]
    libc: tuple[str, str]
    free_bytes: int
    folder: Path

    @classmethod
    def here(cls, folder: Path) -> Host:
        """Describe this machine, with the free space of the file system that holds `folder`."""
        return cls(
            system=platform.system(),
            machine=platform.machine(),
            flags=cpu_flags(Path("/proc/cpuinfo")),
            python=sys.version_info[:2],
            libc=platform.libc_ver(),
            free_bytes=shutil.disk_usage(folder).free,
            folder=folder,
        )


def cpu_flags(cpuinfo: Path) -> frozenset[str]:
    """Return the processor's feature names from Linux's /proc/cpuinfo, none where that cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


def check_host(host: Host, *, needed_bytes: int) -> None:
    """Return if the engine can be installed and run on `host`.

    Raises:
        SpecdeckError: it cannot; says why, and what else can be done.
    """
    if host.system != "Linux" or host.machine not in {"x86_64", "AMD64"}:
        raise SpecdeckError(
            f"the CPU engine runs on x86-64 Linux only, and this is {host.machine or 'unknown'} {host.system}",
            fix=ELSEWHERE,
        )
    if "avx2" not in host.flags:
        raise SpecdeckError(
            "the CPU engine needs AVX2, which this processor (or its virtual machine) does not offer",
            where="/proc/cpuinfo, flags",
            fix=f"expose the host's CPU features to the virtual machine, or {ELSEWHERE}",
        )
    if not OLDEST_PYTHON <= host.python < FIRST_TOO_NEW:
        raise SpecdeckError(
            "the CPU engine needs Python 3.11 to 3.14, and this is {}.{}".format(*host.python),
            where=sys.executable,
            fix="make PYTHON=python3.11 … (any of these versions)",
        )
    name, version = host.libc
    if name != "glibc" or tuple(int(part) for part in version.split(".")[:2]) < OLDEST_GLIBC:
        raise SpecdeckError(
            f"the CPU engine needs glibc 2.28 or newer, and this system has {name or 'another C library'} {version}",
            fix=f"use a distribution of 2019 or later, or {ELSEWHERE}",
        )
    if host.free_bytes < needed_bytes:
        raise SpecdeckError(
            f"not enough disk space for the engine: {host.free_bytes / GIB:.1f} GiB free, "
            f"{needed_bytes / GIB:.0f} GiB needed",
            where=str(host.folder),
            fix=f"free space on the file system of {host.folder}, then run the same command again",
        )


def main() -> int:
    """Check this machine before any environment exists: `python -m specdeck.engine.host`, standard library only."""
    try:
        check_host(Host.here(Path.cwd()), needed_bytes=0)
    except SpecdeckError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command of its own, run before the command line is installed
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
