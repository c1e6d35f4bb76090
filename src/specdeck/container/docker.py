"""The edge to the Docker engine: one connection, and its refusals as errors that say what to do."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import docker
import docker.errors
import requests

from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient
    from docker.models.images import Image

TIMEOUT_S = 60
_REFUSALS = (
    (
        "could not select device driver",
        "Docker cannot hand out GPUs on this machine",
        "install nvidia-container-toolkit, then run: sudo nvidia-ctk runtime configure --runtime=docker",
    ),
    ("port is already allocated", "another container publishes that port", "specdeck status, or another --port"),
    ("address already in use", "something else listens on that port", "choose another with --port"),
    ("no space left on device", "the disk that Docker uses is full", "docker system df; docker image prune"),
    ("executable file not found", "the image has no such program", "use an image with vLLM and python3 on its PATH"),
    ("bind source path does not exist", "a folder to mount is not there", "specdeck fetch RECIPE"),
)


def connect() -> DockerClient:
    """Return a connection to the engine that DOCKER_HOST names, by default the local one.

    Raises:
        SpecdeckError: nothing answers there, or it may not be used.
    """
    where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        client = docker.from_env(timeout=TIMEOUT_S)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
        denied = "Permission denied" in str(error)
        raise SpecdeckError(
            "you may not use the Docker engine" if denied else "no Docker engine answers",
            where=where,
            fix="sudo usermod -aG docker $USER, then log in again"
            if denied
            else "sudo systemctl start docker; or set DOCKER_HOST; or serve without one: --runtime local --python PATH",
            exit_code=EXIT_UNMEASURABLE,
        ) from None
    return client


@contextmanager
def refusals(what: str, *, where: str) -> Iterator[None]:
    """Turn an engine's refusal within the block into an error.

    Raises:
        SpecdeckError: the engine said no, or did not answer in time.
    """
    try:
        yield
    except docker.errors.ImageNotFound:
        raise SpecdeckError(
            f"{what}: the image is not on this machine", where=where, fix=f"docker pull {where}"
        ) from None
    except docker.errors.NotFound:
        raise SpecdeckError(f"{what}: there is no such container", where=where, fix="specdeck status") from None
    except docker.errors.APIError as error:
        text = str(error.explanation or error)
        for known, said, fix in _REFUSALS:
            if known in text.lower():
                raise SpecdeckError(f"{what}: {said} ({text})", where=where, fix=fix) from None
        raise SpecdeckError(f"{what}: Docker says: {text}", where=where, fix="docker info") from None
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise SpecdeckError(
            f"{what}: the Docker engine does not answer ({type(error).__name__})",
            where=os.environ.get("DOCKER_HOST") or "the local engine",
            fix="sudo systemctl status docker",
        ) from None


def find_image(client: DockerClient, reference: str) -> Image:
    """Return an image that is on this machine.

    Raises:
        SpecdeckError: it is not.
    """
    with refusals("the image cannot be used", where=reference):
        return client.images.get(reference)
