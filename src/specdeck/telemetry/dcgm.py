"""GPUs of another host by NVIDIA's DCGM exporter: the figures NVML gives, where the driver is out of reach."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from specdeck.errors import SpecdeckError
from specdeck.telemetry.exposition import parse

if TYPE_CHECKING:
    from specdeck.telemetry.exposition import Exposition
    from specdeck.telemetry.gpu import Reading

TIMEOUT_S = 5.0
MAX_BYTES = 2**24
_SERIES: dict[str, tuple[tuple[str, ...], float]] = {
    "power_w": (("DCGM_FI_DEV_POWER_USAGE",), 1.0),
    "energy_j": (("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",), 1e-3),
    "util_percent": (("DCGM_FI_DEV_GPU_UTIL",), 1.0),
    "sm_clock_mhz": (("DCGM_FI_DEV_SM_CLOCK",), 1.0),
    "memory_used_mib": (("DCGM_FI_DEV_FB_USED",), 1.0),
    "temperature_c": (("DCGM_FI_DEV_GPU_TEMP",), 1.0),
    "throttle_reasons": (("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"), 1.0),
}
"""Figure → its series, the first that is there, and what to multiply by (energy is in millijoules)."""


class DcgmExporter:
    """A DCGM exporter's /metrics. Made by `open_exporter`, which has read it once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._devices: tuple[str, ...] = ()

    def fetch(self) -> Exposition:
        """Read it once.

        Raises:
            SpecdeckError: no answer, more than 16 MiB, or no exposition text.
        """
        try:
            with urllib.request.urlopen(self._url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - scheme is checked
                body: bytes = answer.read(MAX_BYTES + 1)
            if len(body) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
            return parse(body.decode("utf-8"), where=self._url)
        except (OSError, ValueError) as error:
            raise SpecdeckError(
                f"GPU telemetry cannot be read: {error}", where=self._url, fix=f"check it: curl {self._url}"
            ) from error

    def read(self) -> list[Reading]:
        """One reading per device, in order of the `gpu` label; empty when the exporter does not answer."""
        try:
            found = self.fetch()
        except SpecdeckError:
            return []
        by_device: dict[str, Reading] = {}
        for key, (names, factor) in _SERIES.items():
            name = next((name for name in names if name in found), names[0])
            for sample in found.get(name):
                if (device := sample.labels.get("gpu")) is not None:
                    by_device.setdefault(device, dict.fromkeys(_SERIES))[key] = sample.value * factor
        self._devices = self._devices or tuple(sorted(by_device, key=lambda name: (len(name), name)))
        return [by_device.get(device, dict.fromkeys(_SERIES)) for device in self._devices]

    def close(self) -> None:
        """Nothing stays open between two readings."""


def open_exporter(url: str) -> DcgmExporter:
    """Find out whether a URL is a DCGM exporter; `/metrics` is added where the URL has no path.

    Raises:
        SpecdeckError: not an http URL, no answer, or no figures of any GPU.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SpecdeckError("the telemetry URL is no http URL", where=url, fix="write http://HOST:9400/metrics")
    exporter = DcgmExporter(url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics")
    exporter.fetch()
    if not exporter.read():
        raise SpecdeckError(
            "the telemetry URL shows no figures of a GPU", where=url, fix="give the address of a DCGM exporter"
        )
    return exporter
