"""NVIDIA GPUs by NVML: power, energy, use, clock, memory, temperature. Absent hardware is None, never 0."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Reading = dict[str, float | None]

_QUESTIONS: dict[str, Callable[[Any, Any], float]] = {
    "power_w": lambda nvml, device: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    "energy_j": lambda nvml, device: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000,
    "util_percent": lambda nvml, device: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
    "sm_clock_mhz": lambda nvml, device: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
    "memory_used_mib": lambda nvml, device: nvml.nvmlDeviceGetMemoryInfo(device).used / 2**20,
    "temperature_c": lambda nvml, device: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU),
}


class Gpus:
    """The devices a working driver shows. Made by `open_gpus`."""

    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml, self._handles = nvml, handles

    def read(self) -> list[Reading]:
        """One reading per device; a figure the device does not give is None.

        Units: watts, joules since the driver was loaded, percent, MHz, MiB, degrees Celsius.
        """
        return [{key: self._ask(question, h) for key, question in _QUESTIONS.items()} for h in self._handles]

    def close(self) -> None:
        """Let the driver go."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _ask(self, question: Callable[[Any, Any], float], handle: Any) -> float | None:
        try:
            return float(question(self._nvml, handle))
        except self._nvml.NVMLError:
            return None


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


def mean_readings(readings: list[list[Reading]]) -> tuple[Reading, ...] | None:
    """Average readings over time, per device; `energy_j` is the difference of last and first instead.

    Args:
        readings: one list of devices a moment, in time order.
    """
    if not readings or not readings[0]:
        return None
    devices: list[Reading] = []
    for index in range(len(readings[0])):
        series = [moment[index] for moment in readings if index < len(moment)]
        device: Reading = {"index": float(index)}
        for key in series[0]:
            values = [value for reading in series if (value := reading[key]) is not None]
            if not values:
                device[key] = None
            elif key == "energy_j":
                device[key] = values[-1] - values[0] if len(values) > 1 and values[-1] >= values[0] else None
            else:
                device[key] = sum(values) / len(values)
        devices.append(device)
    return tuple(devices)
