"""NVIDIA GPUs by NVML: power, energy, use, clock, memory, temperature, throttling. Absent hardware is None, never 0.

The one place that opens the driver.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Reading = dict[str, float | None]
Moment = tuple[float, list[Reading]]
"""When (seconds of one clock), and a reading of each device."""

POWER_CAP = 0x4
THERMAL = 0x20 | 0x40
HARDWARE = 0x8 | 0x80
"""Bits of NVML's clock throttle reasons: software power cap; software and hardware thermal; slowdown and power brake
by hardware. NVML sets 0x8 along with 0x40 and 0x80."""

_QUESTIONS: dict[str, Callable[[Any, Any], float]] = {
    "power_w": lambda nvml, device: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    "energy_j": lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000,
    "util_percent": lambda nvml, device: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
    "sm_clock_mhz": lambda nvml, device: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
    "memory_used_mib": lambda nvml, device: nvml.nvmlDeviceGetMemoryInfo(device).used / 2**20,
    "temperature_c": lambda nvml, device: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
    "throttle_reasons": lambda nvml, device: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device),
}
_SHARES = {"power_capped_share": POWER_CAP, "thermal_throttled_share": THERMAL, "hardware_slowed_share": HARDWARE}


class GpuSource(Protocol):
    """Something that reads GPUs: the driver, or an exporter of another host."""

    def read(self) -> list[Reading]:
        """One reading per device, now; empty when nothing can be read."""

    def close(self) -> None:
        """Let it go."""


class Gpus:
    """The devices a working driver shows. Made by `open_gpus`."""

    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml, self._handles = nvml, handles

    def read(self) -> list[Reading]:
        """One reading per device; a figure the device does not give is None.

        Units: watts, joules since the driver was loaded, percent, MHz, MiB, degrees Celsius, NVML's reason bits.
        """
        return [{key: self._ask(question, h) for key, question in _QUESTIONS.items()} for h in self._handles]

    def describe(self) -> list[dict[str, Any]]:
        """Name, memory (GiB), driver, compute capability and power limit (W) of each device.

        Raises:
            pynvml.NVMLError: the driver fails on a question that every device answers.
        """
        driver = self._nvml.nvmlSystemGetDriverVersion()
        return [self._description(handle, driver) for handle in self._handles]

    def close(self) -> None:
        """Let the driver go."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _ask(self, question: Callable[[Any, Any], float], handle: Any) -> float | None:
        try:
            return float(question(self._nvml, handle))
        except self._nvml.NVMLError:
            return None

    def _description(self, handle: Any, driver: str) -> dict[str, Any]:
        nvml = self._nvml
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        return {
            "name": nvml.nvmlDeviceGetName(handle),
            "memory_gib": round(nvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30, 1),
            "driver": driver,
            "compute_capability": f"{major}.{minor}",
            "power_limit_w": self._ask(lambda lib, h: lib.nvmlDeviceGetPowerManagementLimit(h) / 1000, handle),
        }


def open_gpus() -> Gpus | None:
    """Open NVML; None where there is no driver or no device."""
    try:
        import pynvml  # noqa: PLC0415 - only hosts that measure need it
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        handles = []
    gpus = Gpus(pynvml, handles)
    if not handles:
        gpus.close()
        return None
    return gpus


def describe_gpus() -> list[dict[str, Any]] | None:
    """What GPUs this host has (see `Gpus.describe`); None without a driver or a device."""
    gpus = open_gpus()
    if gpus is None:
        return None
    import pynvml  # noqa: PLC0415 - open_gpus has it

    try:
        return gpus.describe()
    except pynvml.NVMLError:
        return None
    finally:
        gpus.close()


def summarise(moments: Sequence[Moment], window: tuple[float, float] | None = None) -> tuple[Reading, ...] | None:
    """What a span of readings comes to, per device; None without any.

    `energy_j` is what was used up within the window, interpolated between readings; `throttle_reasons` become the
    shares of readings (0 to 1) in which clocks were held down by the power cap, by heat, or by the hardware; the rest
    are means over the readings within the window, or over all where none lies in it.

    Args:
        moments: in time order.
        window: start and end on the moments' clock; None: all of them.
    """
    if not moments or not moments[0][1]:
        return None
    start, end = window or (moments[0][0], moments[-1][0])
    within = [moment for moment in moments if start <= moment[0] <= end] or moments
    return tuple(_device(index, moments, within, start, end) for index in range(len(moments[0][1])))


def _device(index: int, moments: Sequence[Moment], within: Sequence[Moment], start: float, end: float) -> Reading:
    device: Reading = {"index": float(index)}
    for key in moments[0][1][index]:
        if key == "energy_j":
            device[key] = _used(_series(moments, index, key), start, end)
            continue
        values = [value for _, value in _series(within, index, key)]
        if key == "throttle_reasons":
            for name, bits in _SHARES.items():
                held = [bool(int(value) & bits) for value in values]
                device[name] = sum(held) / len(held) if held else None
        else:
            device[key] = sum(values) / len(values) if values else None
    return device


def _series(moments: Sequence[Moment], index: int, key: str) -> list[tuple[float, float]]:
    return [
        (when, value)
        for when, devices in moments
        if index < len(devices) and (value := devices[index].get(key)) is not None
    ]


def _used(series: list[tuple[float, float]], start: float, end: float) -> float | None:
    """How far a counter rose within a window; None where it fell (the driver was loaded anew) or stood once only."""
    if len(series) < 2 or any(later[1] < earlier[1] for earlier, later in pairwise(series)):
        return None
    return _at(series, end) - _at(series, start)


def _at(series: list[tuple[float, float]], moment: float) -> float:
    """The counter's value at a moment, on the line between its readings; that of the nearest one outside of them."""
    after = bisect_right(series, (moment, float("inf")))
    if after in {0, len(series)}:
        return series[min(after, len(series) - 1)][1]
    (t0, v0), (t1, v1) = series[after - 1], series[after]
    return v0 + (v1 - v0) * (moment - t0) / (t1 - t0)


def energy_j(gpus: Sequence[Reading] | None) -> float | None:
    """Joules of all devices together; None where one of them does not count its energy."""
    counted = [gpu.get("energy_j") for gpu in gpus or ()]
    known = [value for value in counted if value is not None]
    return sum(known) if known and len(known) == len(counted) else None
