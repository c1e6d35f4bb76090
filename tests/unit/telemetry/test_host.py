"""Host figures are what the kernel and the driver say; absent hardware is None."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.telemetry import host as host_module
from specdeck.telemetry.gpu import Gpus, describe_gpus, energy_j, open_gpus, summarise
from specdeck.telemetry.host import HostSampler, is_this_host

if TYPE_CHECKING:
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
        self.sampled = threading.Event()

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
        if self.joules >= 20:  # entering read once; this is the thread
            self.sampled.set()
        return self.joules * 1000

    def nvmlDeviceGetUtilizationRates(self, _device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=80)

    def nvmlDeviceGetClockInfo(self, _device: int, _which: int) -> int:  # noqa: N802
        return 1500

    def nvmlDeviceGetMemoryInfo(self, _device: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=2**30, total=24 * 2**30)

    def nvmlDeviceGetTemperature(self, _device: int, _which: int) -> int:  # noqa: N802
        raise _NVMLError

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _device: int) -> int:  # noqa: N802
        return 0x4 | 0x20

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "1.2"

    def nvmlDeviceGetName(self, _device: int) -> str:  # noqa: N802
        return "GPU"

    def nvmlDeviceGetCudaComputeCapability(self, _device: int) -> tuple[int, int]:  # noqa: N802
        return 9, 0

    def nvmlDeviceGetPowerManagementLimit(self, _device: int) -> int:  # noqa: N802
        return 350_000

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


def test_gpus_are_sampled_in_a_thread_and_what_a_device_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = _FakeNvml()
    monkeypatch.setattr("specdeck.telemetry.host.open_gpus", lambda: Gpus(nvml, [0]))
    with HostSampler(interval_s=0.001) as host:
        assert nvml.sampled.wait(30), "the thread took no sample"
    (device,) = host.use().gpus or ()
    assert (device["power_w"], device["util_percent"], device["memory_used_mib"]) == (250.0, 80.0, 1024.0)
    assert device["temperature_c"] is None
    assert device["energy_j"] == nvml.joules - 10
    assert device["thermal_throttled_share"] == device["power_capped_share"] == 1.0
    assert device["hardware_slowed_share"] == 0.0
    assert nvml.closed


def test_what_the_driver_says_of_a_device_is_described_by_the_same_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = _FakeNvml()
    monkeypatch.setattr("specdeck.telemetry.gpu.open_gpus", lambda: Gpus(nvml, [0]))
    assert describe_gpus() == [
        {"name": "GPU", "memory_gib": 24.0, "driver": "1.2", "compute_capability": "9.0", "power_limit_w": 350.0}
    ]
    assert nvml.closed
    monkeypatch.setattr("specdeck.telemetry.gpu.open_gpus", lambda: None)
    assert describe_gpus() is None


def _moments(*figures: tuple[float, dict[str, float | None]]) -> list[gpu.Moment]:
    return [(when, [reading]) for when, reading in figures]


def test_energy_is_what_the_window_used_up_and_the_rest_are_means_of_its_samples() -> None:
    moments = _moments(
        (0.0, {"power_w": 50.0, "energy_j": 1000.0}),
        (2.0, {"power_w": 100.0, "energy_j": 1200.0}),
        (4.0, {"power_w": None, "energy_j": 1800.0}),
        (6.0, {"power_w": 300.0, "energy_j": 2400.0}),
    )
    assert summarise(moments, (1.0, 5.0)) == ({"index": 0.0, "power_w": 100.0, "energy_j": 1000.0},)
    assert summarise(moments) == ({"index": 0.0, "power_w": 150.0, "energy_j": 1400.0},)
    assert summarise(moments, (2.5, 3.5)) == ({"index": 0.0, "power_w": 150.0, "energy_j": 300.0},)
    assert summarise([]) is None


def test_a_counter_of_energy_that_fell_or_was_read_once_is_unknown() -> None:
    fell = _moments((0.0, {"energy_j": 10.0}), (1.0, {"energy_j": 5.0}))
    assert (summarise(fell) or ())[0]["energy_j"] is None
    assert (summarise(fell[:1]) or ())[0]["energy_j"] is None
    assert energy_j([{"energy_j": 3.0}, {"energy_j": 4.0}]) == 7.0
    assert energy_j([{"energy_j": 3.0}, {"energy_j": None}]) is None
    assert energy_j(None) is None


def test_throttling_is_told_as_shares_of_samples_by_cause() -> None:
    reasons = [0x0, 0x4, 0x8 | 0x40, 0x80]
    readings: list[gpu.Moment] = [(float(i), [{"throttle_reasons": float(r)}]) for i, r in enumerate(reasons)]
    (device,) = summarise(readings) or ()
    assert device == {
        "index": 0.0, "power_capped_share": 0.25, "thermal_throttled_share": 0.25, "hardware_slowed_share": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost:8000", True),
        ("http://192.0.2.7:8000", False),
        ("http://[2001:db8::7]:8000", False),
        ("http://no-such-host.invalid:8000", False),
        ("nonsense", False),
    ],
)
def test_a_servers_address_tells_whether_it_runs_on_this_host(url: str, here: bool) -> None:
    assert is_this_host(url) is here


def test_this_hosts_gpus_are_not_read_for_a_server_that_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    monkeypatch.setattr(host_module, "open_gpus", lambda: opened.append(1))
    with HostSampler(own_gpus=False) as sampler:
        pass
    assert (sampler.use().gpus, opened) == (None, [])
    with HostSampler():
        pass
    assert opened == [1]
