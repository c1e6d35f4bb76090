"""What an image is asked for is held against the recipe before anything is fetched; docker's answers are read right."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
from support.checkout import RECIPE

from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.build import CPU_BASE, Source, only_one, request
from specdeck.image.docker_cli import Docker, find_docker, pinned
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from support.checkout import Checkout

    from specdeck.recipe import Recipe

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def cpu(checkout: Checkout) -> Recipe:
    assert checkout.root
    return load_recipe("r")


@pytest.fixture
def cuda(checkout: Checkout) -> Recipe:
    text = RECIPE.replace("name: r\n", "name: cuda\n").replace(
        'engine: {vllm: "==0.32.0", runtime: local, environment: cpu}\nhardware: {device: cpu, class: x86-64}',
        'engine: {vllm: ">=0.32,<0.34", runtime: docker}\nhardware: {device: cuda, gpus: 1, class: rtx3090}',
    )
    checkout.recipe("cuda", text)
    return load_recipe("cuda")


def program(folder: Path, script: str) -> Docker:
    """Write a docker that answers as `script` does."""
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Docker(str(path))


def test_a_cpu_image_is_of_the_lock_files_version_on_a_python_base(cpu: Recipe) -> None:
    asked = request(cpu)
    assert (asked.base, asked.vllm) == (CPU_BASE, "0.32.0")
    assert request(cpu, base="b").base == "b"


def test_a_cuda_image_has_the_bases_vllm_unless_a_release_is_named(cuda: Recipe) -> None:
    assert request(cuda, base="b").vllm is None
    assert request(cuda, base="b", vllm="0.33.0").vllm == "0.33.0"


def test_what_could_not_serve_the_recipe_is_refused(cpu: Recipe, cuda: Recipe) -> None:
    with pytest.raises(SpecdeckError, match="is for cpu, and an image for cuda"):
        request(cpu, runtime="cuda")
    with pytest.raises(SpecdeckError, match=r"lock files of engines/cpu, which are of vLLM 0\.32\.0"):
        request(cpu, vllm="0.33.0")
    with pytest.raises(SpecdeckError, match=r"and not for 0\.31\.0"):
        request(cuda, base="b", vllm="0.31.0")
    with pytest.raises(SpecdeckError, match="names no image to build upon"):
        request(cuda)


@pytest.mark.parametrize(
    ("source", "vllm", "said"),
    [
        (Source("https://x/y", "c" * 40), None, "does not say which vLLM it is"),
        (Source("https://x/y", "main"), "0.32.0", "'main' is no pin"),
        (Source("https://x/y", "c" * 40, ("7",)), "0.32.0", "'7' is no pin"),
        (Source("https://x/y", "c" * 40, (f"7@{'c' * 12}",)), "0.32.0", "is no pin"),
        (Source("https://me:secret@x/y", "c" * 40), "0.32.0", "holds a user or password"),
    ],
)
def test_a_source_that_is_not_pinned_is_refused(cuda: Recipe, source: Source, vllm: str | None, said: str) -> None:
    with pytest.raises(SpecdeckError, match=said) as caught:
        request(cuda, base="b", vllm=vllm, source=source)
    assert "secret" not in str(caught.value)


def test_a_source_for_the_cpu_may_be_of_any_version_that_the_recipe_is_for(cpu: Recipe) -> None:
    asked = request(cpu, base="b", vllm="0.32.0", source=Source("https://x/y", "c" * 40, (f"7@{'d' * 40}",)))
    assert asked.source is not None
    assert asked.source.arguments()["PULLS"] == f"7@{'d' * 40}"


def test_a_base_from_a_registry_is_pinned_by_digest_and_a_local_one_is_not(tmp_path: Path) -> None:
    docker = program(tmp_path, f'[ "$5" = local ] || echo "example/vllm@{DIGEST}"')
    assert pinned(docker, "example/vllm:v1", print) == (f"example/vllm@{DIGEST}", DIGEST)
    assert pinned(docker, f"example/vllm@{DIGEST}", print) == (f"example/vllm@{DIGEST}", DIGEST)
    assert pinned(docker, "local", print) == ("local", None)


def test_a_base_that_is_not_here_is_pulled_first(tmp_path: Path) -> None:
    there = tmp_path / "pulled"
    docker = program(
        tmp_path, f'[ "$1" = pull ] && exec touch "{there}"; [ -e "{there}" ] && echo "x/y@{DIGEST}" || exit 1'
    )
    said: list[str] = []
    assert pinned(docker, "x/y:1", said.append) == (f"x/y@{DIGEST}", DIGEST)
    assert said == ["pulling x/y:1"]


def test_a_build_tells_its_steps_and_keeps_every_line_in_the_log(tmp_path: Path) -> None:
    docker = program(tmp_path, "echo '#5 [base 1/2] RUN x'; echo '#5 0.1 a line'; echo '#6 CACHED'; echo noise >&2")
    said: list[str] = []
    docker.build(["."], tmp_path / "log", said.append)
    assert said == ["[base 1/2] RUN x", "CACHED"]
    assert (tmp_path / "log").read_text().splitlines() == ["#5 [base 1/2] RUN x", "#5 0.1 a line", "#6 CACHED", "noise"]


def test_a_failed_build_shows_the_last_lines_and_names_the_log(tmp_path: Path) -> None:
    docker = program(tmp_path, "for i in $(seq 40); do echo line $i; done; exit 1")
    with pytest.raises(SpecdeckError) as caught:
        docker.build(["."], tmp_path / "log", print)
    assert "line 40" in caught.value.what
    assert "line 20\n" not in caught.value.what
    assert caught.value.where == str(tmp_path / "log")
    assert caught.value.exit_code == EXIT_FAILED


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[ "$1" = --version ] && echo "Docker version 28.2.2, build e"; exit 1', "cannot build with BuildKit"),
        ('[ "$1" = buildx ] || exit 1', "does not answer"),
        ('[ "$1" = --version ] && echo "Docker version 20.10.24, build e" || exit 1', "does not answer"),
    ],
)
def test_what_docker_lacks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: program(tmp_path, script).program)
    monkeypatch.setattr("os.access", lambda name, _mode: name.startswith(str(tmp_path)))
    with pytest.raises(SpecdeckError, match=said) as caught:
        find_docker()
    assert caught.value.fix


def test_no_docker_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("os.access", lambda _name, _mode: False)
    with pytest.raises(SpecdeckError, match="not installed"):
        find_docker()


def test_two_builds_of_one_checkout_are_not_at_the_same_time(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(SpecdeckError, match="another image is being built"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass
