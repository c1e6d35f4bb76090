"""What a cell cost this host: CPU of all and of the client, load, GPUs. Costs well under 0.5 % of a core.

CPU figures are differences of the kernel's counters over the cell, so they need no sampling; GPUs are sampled.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import msgspec
import psutil

from specdeck.results.schema import HostUse
from specdeck.telemetry.gpu import open_gpus, summarise

if TYPE_CHECKING:
    from types import TracebackType

    from specdeck.telemetry.gpu import GpuSource, Moment

MAX_READINGS = 100_000


def is_this_host(url: str) -> bool:
    """Whether a URL leads to this machine, as far as its address tells: a tunnel looks as if it did."""
    name = urlsplit(url).hostname
    if not name:
        return False
    try:
        found = socket.getaddrinfo(name, None)
    except (OSError, UnicodeError, ValueError):
        return False
    own = {entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries}
    addresses = {str(info[4][0]).partition("%")[0] for info in found}
    return all(address in own or ipaddress.ip_address(address).is_loopback for address in addresses)


class HostSampler:
    """Context manager around a cell; `use()` is its HostUse afterwards. Percent are of all cores.

    Args:
        interval_s: between two readings of the GPUs.
        gpus: what reads them, closed at the end; None: this host's driver, where there is one.
        own_gpus: whether this host's driver may be read; false where the server runs elsewhere.
    """

    def __init__(self, interval_s: float = 1.0, gpus: GpuSource | None = None, *, own_gpus: bool = True) -> None:
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpus: GpuSource | None = gpus or (open_gpus() if own_gpus else None)
        self._readings: list[Moment] = []
        self._use = HostUse()
        self._began: tuple[float, float, tuple[float, float]] = (0.0, 0.0, (0.0, 0.0))

    def __enter__(self) -> Self:
        if self._gpus is not None:
            self._read(self._gpus)
            self._thread = threading.Thread(target=self._watch, name="specdeck-gpus", daemon=True)
            self._thread.start()
        self._began = (time.monotonic(), time.process_time(), _busy_and_total())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        wall, client, (busy, total) = self._began
        now_busy, now_total = _busy_and_total()
        wall, client = time.monotonic() - wall, time.process_time() - client
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        if self._gpus is not None:
            self._read(self._gpus)
            self._gpus.close()
        self._use = HostUse(
            cpu_percent=100 * (now_busy - busy) / (now_total - total) if now_total > total else None,
            client_cpu_percent=100 * client / (wall * (os.cpu_count() or 1)) if wall > 0 else None,
            load_average_1m=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        )

    def use(self, window: tuple[float, float] | None = None) -> HostUse:
        """What was used between entry and exit; of the GPUs within `window` (start and end on `time.perf_counter`)."""
        return msgspec.structs.replace(self._use, gpus=summarise(self._readings, window))

    def _watch(self) -> None:
        assert self._gpus is not None
        while not self._stop.wait(self._interval_s) and len(self._readings) < MAX_READINGS:
            self._read(self._gpus)

    def _read(self, gpus: GpuSource) -> None:
        now = time.perf_counter()
        if readings := gpus.read():
            self._readings.append((now, readings))


def _busy_and_total() -> tuple[float, float]:
    """CPU seconds of all cores since boot: busy, and all. Guest time is part of user time, so it is not added."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(
        getattr(times, name, 0.0) for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    )
    return total - idle, total
