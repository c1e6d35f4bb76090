"""What would make a start fail late is told before it, all at once; a busy GPU with who holds it. NVML is a double."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.checkout import RECIPE

from specdeck.container import preflight as asked
from specdeck.container.cards import GIB, look
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.checkout import Checkout

    from specdeck.container.preflight import Trouble

Usage = namedtuple("Usage", "total used free")
ME = "0" * 63 + "e"


class Nvml:
    """Two cards of 24 GiB; this process holds 20 GiB of the second."""

    NVMLError = RuntimeError

    def __init__(self, *, cuda: int = 12080, driver: bool = True) -> None:
        self.cuda, self.driver, self.open = cuda, driver, 0

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names
        if not self.driver:
            raise self.NVMLError("no driver")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetDriverVersion": lambda: "570.10",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: self.cuda,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{'ab'[handle]}0",
            "nvmlDeviceGetName": lambda _handle: b"RTX 3090",
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
                total=24 * GIB, free=(24 - 20 * handle) * GIB - GIB // 4
            ),
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: (
                [SimpleNamespace(pid=os.getpid(), usedGpuMemory=20 * GIB)] if handle else []
            ),
        }
        if name not in answers:
            raise AttributeError(name)
        return answers[name]

    def nvmlDeviceGetGraphicsRunningProcesses(self, _handle: int) -> list[Any]:  # noqa: N802
        raise self.NVMLError("not supported")


def texts(found: Iterable[Trouble]) -> list[str]:
    troubles = list(found)
    assert all(trouble.fix for trouble in troubles)
    return [trouble.what for trouble in troubles]


def test_a_busy_gpu_is_told_with_pid_user_memory_and_container_and_may_be_forced(tmp_path: Path) -> None:
    (tmp_path / str(os.getpid())).mkdir()
    (tmp_path / str(os.getpid()) / "cgroup").write_text(f"0::/system.slice/docker-{ME}.scope\n")
    nvml = Nvml()
    cards = look(nvml, {ME: "somebodys-server"}, tmp_path)
    assert cards is not None
    assert nvml.open == 0
    assert texts(asked.gpus_are_free(cards.chosen(["0"])[0], 0.9)) == []
    held, memory = asked.gpus_are_free(cards.chosen(["GPU-b0"])[0], 0.9)
    assert f"pid {os.getpid()}" in held.what
    assert "20.0 GiB, container somebodys-server" in held.what
    assert "user " in held.what
    assert (held.forced, memory.forced) == (True, False)
    assert "3.8 of 24.0 GiB free, and gpu_memory_utilization 0.9 asks for 21.6" in memory.what


def test_gpus_that_are_not_there_are_told_with_those_that_are() -> None:
    cards = look(Nvml())
    assert texts(asked.gpus_are_there(cards, ["0", "GPU-a0"])) == []
    (told,) = texts(asked.gpus_are_there(cards, ["0", "2"]))
    assert "no GPU '2'" in told
    assert "GPU-b0" in told
    assert texts(asked.gpus_are_there(look(Nvml(driver=False)), ["0"])) == [
        "no NVIDIA driver answers, and the recipe needs GPUs"
    ]


@pytest.mark.parametrize(
    ("cuda", "env", "count"),
    [
        (12080, ["NVIDIA_REQUIRE_CUDA=cuda>=12.9 brand=tesla"], 1),
        (12090, ["NVIDIA_REQUIRE_CUDA=cuda>=12.9 brand=tesla"], 0),
        (13000, ["NVIDIA_REQUIRE_CUDA=cuda>=12.9"], 0),
        (12080, ["PATH=/bin"], 0),
    ],
)
def test_a_driver_older_than_the_images_cuda_is_told(cuda: int, env: list[str], count: int) -> None:
    assert len(texts(asked.driver_runs(look(Nvml(cuda=cuda)), env))) == count


def test_docker_without_an_nvidia_runtime_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert texts(asked.nvidia_in_docker({"Runtimes": {"runc": {}}})) == ["Docker has no NVIDIA runtime"]
    assert texts(asked.nvidia_in_docker({"Runtimes": {"runc": {}, "nvidia": {}}})) == []


def test_weights_that_do_not_fit_are_told_for_the_arm_that_needs_them(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "not" / "there"))
    recipe = RECIPE.replace("{path: models/drafter}", f"{{repo: some/drafter, size_bytes: {30 * GIB}}}")
    checkout.recipe("r", recipe)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(100 * GIB, 90 * GIB, 10 * GIB))
    loaded = load_recipe("r")
    assert texts(asked.on_disk(loaded, "mtp", checkout.root)) == []
    (told,) = texts(asked.on_disk(loaded, "dflash2", checkout.root))
    assert "weights need 30.0 GiB, and 10.0 GiB are free" in told


def test_a_container_of_ours_on_the_same_gpu_is_told_with_the_way_to_stop_it() -> None:
    def container(name: str, gpus: str, status: str = "running") -> Any:
        return SimpleNamespace(name=name, status=status, labels={"io.specdeck.gpus": gpus})

    spec: Any = SimpleNamespace(name="new", gpus=("0", "1"))
    found = list(
        asked.same_gpus(
            [container("a", "1,2"), container("b", "2"), container("c", "0", "exited"), container("d", "")], spec
        )
    )
    assert [trouble.what for trouble in found] == ["a runs on GPU 1"]
    assert found[0].fix == "specdeck stop a"


def test_a_full_docker_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(GIB, GIB, 0))
    assert "docker system prune" in [trouble.fix for trouble in asked.docker_room({"DockerRootDir": str(tmp_path)})]
    assert list(asked.docker_room({"DockerRootDir": "/on/another/machine"})) == []
