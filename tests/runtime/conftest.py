"""A real Docker engine of the tests' own with a small image; skipped with the reason where none can be started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import docker_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient


@pytest.fixture(scope="session")
def client() -> Iterator[DockerClient]:
    reason = docker_engine.why_not()
    if reason:
        pytest.skip(f"no Docker engine can be started here: {reason}")
    try:
        with docker_engine.engine() as found:
            yield found
    except RuntimeError as error:
        pytest.skip(f"this machine runs no Docker engine: {error}")


@pytest.fixture(scope="session")
def image(client: DockerClient) -> str:
    return docker_engine.shell_image(client)
