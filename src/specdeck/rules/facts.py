"""What is known about this machine. None always means: not known."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclasses read annotations
from dataclasses import dataclass


@dataclass(frozen=True)
class HostFacts:
    """What is known about the machine that will serve.

    Attributes:
        driver: NVIDIA driver version.
        capabilities: compute capability of each GPU, such as (8, 6).
        nvlink: whether GPUs are joined by NVLink.
        used_gib: memory in use on each GPU before the start, GiB.
        packages: distributions in the engine's environment, lower-case name to version.
    """

    driver: str | None = None
    capabilities: tuple[tuple[int, int], ...] | None = None
    nvlink: bool | None = None
    used_gib: tuple[float, ...] | None = None
    packages: Mapping[str, str] | None = None
