"""Host figures are what the kernel and the driver say; absent hardware is None."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from specdeck.telemetry.gpu import Gpus, mean_readings, open_gpus
from specdeck.telemetry.host import HostSampler

if TYPE_CHECKING:
    import pytest

    from specdeck.telemetry import gpu


class _NVMLError(Exception):
    pass


class _FakeNvml:
    """A driver with one device that does not tell its temperature."""

    NVMLError = _NVMLError
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 0

    def __init__(self) -> None:
        self.joules = 0
        self.closed = False

    def nvmlInit(self) -> None:  # noqa: N802
        """As NVML."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetPowerUsage(self, _device: int) -> int:  # noqa: N802
        return 250_000

    def nvmlDeviceGetTotalEnergyConsumption(self, _device: int) -> int:  # noqa: N802
        self.joules += 10
        return self.joules * 1000

    def nvmlDeviceGetUtilizationRates(self, _device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=80)

    def nvmlDeviceGetClockInfo(self, _device: int, _which: int) -> int:  # noqa: N802
        return 1500

    def nvmlDeviceGetMemoryInfo(self, _device: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=2**30)

    def nvmlDeviceGetTemperature(self, _device: int, _which: int) -> int:  # noqa: N802
        raise _NVMLError

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.closed = True


def test_the_stand_in_for_the_driver_has_only_what_nvml_has() -> None:
    import pynvml  # noqa: PLC0415

    assert [name for name in vars(_FakeNvml) if name.startswith(("nvml", "NVML")) and not hasattr(pynvml, name)] == []


def test_the_clients_own_cpu_is_seen_and_the_host_is_at_least_as_busy() -> None:
    with HostSampler() as host:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    use = host.use()
    assert use.client_cpu_percent is not None
    assert use.cpu_percent is not None
    assert 0 < use.client_cpu_percent <= 101
    assert 0 < use.cpu_percent <= 100
    assert use.load_average_1m is not None


def test_without_a_driver_gpus_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml  # noqa: PLC0415

    def no_driver() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert open_gpus() is None
    with HostSampler() as host:
        pass
    assert host.use().gpus is None


def test_gpus_are_sampled_in_a_thread_averaged_and_what_a_device_does_not_tell_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = _FakeNvml()
    monkeypatch.setattr("specdeck.telemetry.host.open_gpus", lambda: Gpus(nvml, [0]))
    with HostSampler(interval_s=0.01) as host:
        time.sleep(0.3)
    gpus = host.use().gpus
    assert gpus is not None
    (device,) = gpus
    assert (device["power_w"], device["util_percent"], device["memory_used_mib"]) == (250.0, 80.0, 1024.0)
    assert device["temperature_c"] is None
    assert device["energy_j"] == nvml.joules - 10
    assert nvml.joules > 20
    assert nvml.closed


def test_energy_is_a_difference_and_the_rest_are_means() -> None:
    readings: list[list[gpu.Reading]] = [
        [{"power_w": 100.0, "energy_j": 1000.0}],
        [{"power_w": None, "energy_j": 1400.0}],
        [{"power_w": 300.0, "energy_j": 1900.0}],
    ]
    assert mean_readings(readings) == ({"index": 0.0, "power_w": 200.0, "energy_j": 900.0},)
    assert mean_readings([]) is None
