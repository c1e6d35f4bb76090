"""A Docker engine of the tests' own and an image; where none can be started the tests are skipped with the reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import dockerd

from specdeck.image.build import Built, build, only_one, prepare_wheels, request
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dockerd.Engine]:
    reason = dockerd.missing()
    if reason:
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "")  # put back at the end, whatever the engine of the tests sets it to
        started = dockerd.start(tmp_path_factory.mktemp("d") / "e")
        if isinstance(started, str):
            pytest.skip(started)
        try:
            reason = dockerd.import_base(started, ROOT / ".cache" / "debootstrap")
            if reason:
                pytest.skip(reason)
            yield started
        finally:
            started.stop()


@pytest.fixture(scope="session")
def cpu_image(engine: dockerd.Engine) -> Built:
    """The image of tiny-next-cpu, built without a network."""
    asked = request(load_recipe("tiny-next-cpu"), base=dockerd.BASE, network=False)
    return build(asked, ROOT, engine.docker, print)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose recipes and patches a test may change; the engine's layer is taken from the Docker cache."""
    root = tmp_path / "a check out"
    for name in ("docker", "engines", "src", "recipes", "models"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / ".dockerignore", root)
    wheels = root / ".cache" / "image" / "cpu-wheels"
    wheels.parent.mkdir(parents=True)
    with only_one(ROOT / ".cache" / "image"):
        prepare_wheels(ROOT, "cpu", print)
    shutil.copytree(ROOT / ".cache" / "image" / "cpu-wheels", wheels, copy_function=os.link)
    monkeypatch.setenv("SPECDECK_ROOT", str(root))
    return root
