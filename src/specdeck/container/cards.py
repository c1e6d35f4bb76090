"""The GPUs that a container would get, and who uses them now: NVML's answers, with names for the processes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CONTAINER = re.compile(r"(?:docker[-/]|libpod-|cri-containerd-|/)([0-9a-f]{64})\b")
GIB = 2**30


@dataclass(frozen=True)
class Holder:
    """A process on a GPU. `memory` is None where the driver does not tell (bytes otherwise)."""

    pid: int
    user: str | None
    command: str | None
    memory: int | None
    container: str | None

    def line(self) -> str:
        """Return what is printed."""
        memory = f"{self.memory / GIB:.1f} GiB" if self.memory is not None else "memory not told"
        inside = f", container {self.container}" if self.container else ""
        return f"pid {self.pid} ({self.command or 'its command is hidden'}), user {self.user or '?'}, {memory}{inside}"


@dataclass(frozen=True)
class Card:
    """One GPU. Memory in bytes."""

    index: int
    uuid: str
    name: str
    total: int
    free: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True)
class Cards:
    """All GPUs of this machine, and the newest CUDA that its driver runs, as (major, minor)."""

    driver: str
    cuda: tuple[int, int] | None
    cards: tuple[Card, ...]

    def chosen(self, named: Sequence[str]) -> tuple[list[Card], list[str]]:
        """Return the cards that are named by index or UUID, and the names that fit none."""
        found, unknown = [], []
        for name in named:
            fitting = [card for card in self.cards if name == str(card.index) or card.uuid.startswith(name)]
            if len(fitting) == 1:
                found += fitting
            else:
                unknown.append(name)
        return found, unknown


def look(nvml: Any, containers: Mapping[str, str] | None = None, proc: Path = Path("/proc")) -> Cards | None:
    """Ask the driver.

    Args:
        nvml: the pynvml module, or what stands for it in a test.
        containers: id to name of the running containers.
        proc: where processes are listed.

    Returns:
        What it says; None where there is no driver, or it does not answer.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        cards = tuple(_card(nvml, index, handle, containers or {}, proc) for index, handle in enumerate(handles))
        version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        return Cards(_text(nvml.nvmlSystemGetDriverVersion()), (version // 1000, version % 1000 // 10), cards)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, index: int, handle: Any, containers: Mapping[str, str], proc: Path) -> Card:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    used: dict[int, int | None] = {}
    for question in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
        try:
            used |= {int(p.pid): p.usedGpuMemory for p in question(handle) if p.pid not in used}
        except nvml.NVMLError:
            continue
    return Card(
        index,
        _text(nvml.nvmlDeviceGetUUID(handle)),
        _text(nvml.nvmlDeviceGetName(handle)),
        int(memory.total),
        int(memory.free),
        tuple(_holder(pid, size, containers, proc) for pid, size in sorted(used.items())),
    )


def _holder(pid: int, memory: int | None, containers: Mapping[str, str], proc: Path) -> Holder:
    try:
        process = psutil.Process(pid)
        user, command = process.username(), process.name()
    except (psutil.Error, KeyError):
        user, command = None, None
    return Holder(pid, user, command, memory, _container(pid, containers, proc))


def _container(pid: int, containers: Mapping[str, str], proc: Path) -> str | None:
    try:
        found = _CONTAINER.search((proc / str(pid) / "cgroup").read_text(encoding="utf-8"))
    except OSError:
        return None
    return containers.get(found[1], found[1][:12]) if found else None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
