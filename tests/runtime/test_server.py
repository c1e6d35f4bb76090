"""A container on a real engine: its log, its end, its secret, and nothing left of it. A shell stands for the server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from specdeck.container.running import pick, state
from specdeck.container.server import ContainerServer, start_container
from specdeck.container.spec import ContainerSpec, Mount
from specdeck.engine.ports import free_port, release
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient


def spec(image: str, script: str, *, name: str = "specdeck-r-none", mounts: tuple[Mount, ...] = ()) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=image,
        served_model="r",
        argv=("sh", "-c", script),
        env={"GREETING": "hello"},
        mounts=mounts,
        secrets={},
        gpus=(),
        host="127.0.0.1",
        port=free_port(),
        shm_size=None,
        user=None,
        restart="no",
        labels={"io.specdeck.recipe": "r", "io.specdeck.arm": "none"},
        health=("sh", "-c", "true"),
        start_period_s=60,
    )


async def ended(server: ContainerServer) -> int:
    for _ in range(600):
        status = server.exit_status()
        if status is not None:
            return status
        await asyncio.sleep(0.1)
    raise AssertionError("the container did not end")


async def test_the_log_is_whole_when_the_end_is_told_and_nothing_is_left(
    client: DockerClient, image: str, tmp_path: Path
) -> None:
    asked = spec(image, 'for i in 1 2 3; do echo "$GREETING $i"; done; echo last >&2; exit 3')
    server = start_container(client, asked, tmp_path / "log", api_key=None)
    assert await ended(server) == 3
    lines = (tmp_path / "log").read_text().splitlines()
    assert sorted(lines) == ["hello 1", "hello 2", "hello 3", "last"]  # the two streams have no order between them
    assert [line for line in lines if line != "last"] == ["hello 1", "hello 2", "hello 3"]
    await server.stop()
    await server.stop()
    assert client.containers.list(all=True) == []


async def test_a_kill_from_outside_is_told_by_its_signal(client: DockerClient, image: str, tmp_path: Path) -> None:
    server = start_container(client, spec(image, "sleep 600"), tmp_path / "log", api_key=None)
    assert server.pid is not None
    assert server.exit_status() is None
    server.container.kill()
    assert await ended(server) == -9
    await server.stop()


async def test_what_is_mounted_read_only_cannot_be_written(client: DockerClient, image: str, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    mounts = (Mount(str(tmp_path / "m"), "/m", read_only=True),)
    server = start_container(client, spec(image, "echo x > /m/f", mounts=mounts), tmp_path / "log", api_key=None)
    assert await ended(server) != 0
    assert "Read-only file system" in (tmp_path / "log").read_text()
    await server.stop()


def test_a_container_ends_with_the_process_that_asked_for_it(client: DockerClient, image: str) -> None:
    container = client.containers.run(image, ["sh", "-c", "sleep 600"], name="specdeck-reaped", detach=True)
    code = "import sys, os; from specdeck.container.reaper import watch; watch(*sys.argv[1:]); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(container.id), "specdeck-reaped"], check=False, timeout=60)
    for event in client.events(decode=True, filters={"container": str(container.id), "event": "destroy"}, since=0):
        assert event["Action"] == "destroy"
        break
    assert client.containers.list(all=True) == []


async def test_a_name_that_runs_is_refused_and_one_that_ended_makes_way(
    client: DockerClient, image: str, tmp_path: Path
) -> None:
    first = start_container(client, spec(image, "sleep 600"), tmp_path / "log", api_key=None)
    with pytest.raises(SpecdeckError, match="of that name already, and it is running") as caught:
        start_container(client, spec(image, "sleep 600"), tmp_path / "log", api_key=None)
    assert caught.value.fix is not None
    assert "specdeck stop specdeck-r-none" in caught.value.fix
    first.container.kill()
    await ended(first)
    second = start_container(client, spec(image, "sleep 600"), tmp_path / "log2", api_key=None)
    await second.stop()
    await first.stop()
    assert client.containers.list(all=True) == []


async def test_status_tells_why_a_container_ended(client: DockerClient, image: str, tmp_path: Path) -> None:
    script = "echo 'serve: error: unrecognized arguments: --no-such' >&2; exit 2"
    server = start_container(client, spec(image, script), tmp_path / "log", api_key=None, reaper=False)
    await ended(server)
    lines = "\n".join(state(pick(client, [])[0]).lines())
    assert "specdeck-r-none: exited (status 2)" in lines
    assert "unrecognized arguments: --no-such" in lines
    assert "Fix: this vLLM does not know that option" in lines
    await server.stop()
    with pytest.raises(SpecdeckError, match="no container here"):
        pick(client, [])


async def test_an_image_that_is_not_here_and_a_program_that_it_lacks_are_told(
    client: DockerClient, image: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecdeckError, match="not on this machine"):
        start_container(client, spec("no/such:image", "true"), tmp_path / "log", api_key=None)
    wrong = spec(image, "true")
    release(wrong.port)
    object.__setattr__(wrong, "argv", ("no-such-program",))
    server = start_container(client, wrong, tmp_path / "log", api_key=None)
    assert await ended(server) == 127
    await server.stop()
    assert client.containers.list(all=True) == []
