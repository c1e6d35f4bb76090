"""A compose file holds the whole container, and compose 1.x reads it back unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.checkout import RECIPE

from specdeck.checkpoint.folder import hub_cache
from specdeck.container.compose import compose_file
from specdeck.container.spec import ContainerSpec, Mount

if TYPE_CHECKING:
    from support.checkout import Checkout

COMPOSE = shutil.which("docker-compose")
SPEC = ContainerSpec(
    name="specdeck-r-mtp-8100",
    image="example/vllm:0.32.0",
    served_model="r",
    argv=("sh", "-c", 'echo "$@"', "sh", "python3", "--json", '{"a":"$HOME"}'),
    env={"A": "1", "PRICE": "$5"},
    mounts=(Mount("/models/t", "/models/t", read_only=True), Mount("/c", "/cache", read_only=False)),
    secrets={"vllm_api_key": "/keys/key"},
    gpus=("0", "GPU-b"),
    host="127.0.0.1",
    port=8100,
    shm_size=None,
    user="1000:1000",
    restart="no",
    labels={"io.specdeck.recipe": "r"},
    health=("python3", "-c", "pass"),
    start_period_s=900,
)
GOLDEN = """\
services:
  vllm:
    image: example/vllm:0.32.0
    container_name: specdeck-r-mtp-8100
    entrypoint:
    - sh
    - -c
    - echo "$$@"
    - sh
    - python3
    - --json
    - '{"a":"$$HOME"}'
    command: []
    environment:
      A: '1'
      PRICE: $$5
    ports:
    - 127.0.0.1:8100:8000
    volumes:
    - type: bind
      source: /models/t
      target: /models/t
      read_only: true
    - type: bind
      source: /c
      target: /cache
      read_only: false
    labels:
      io.specdeck.recipe: r
    healthcheck:
      test:
      - CMD
      - python3
      - -c
      - pass
      interval: 10s
      timeout: 10s
      retries: 3
      start_period: 900s
    init: true
    restart: 'no'
    stop_grace_period: 30s
    ipc: host
    user: 1000:1000
    deploy:
      resources:
        reservations:
          devices:
          - driver: nvidia
            device_ids:
            - '0'
            - GPU-b
            capabilities:
            - gpu
    secrets:
    - vllm_api_key
secrets:
  vllm_api_key:
    file: /keys/key
"""


def test_the_compose_file_is_the_known_one() -> None:
    assert compose_file(SPEC) == GOLDEN


def test_private_shared_memory_replaces_the_hosts() -> None:
    service = yaml.safe_load(compose_file(replace(SPEC, shm_size="16g")))["services"]["vllm"]
    assert service["shm_size"] == "16g"
    assert "ipc" not in service


def test_a_server_without_gpus_asks_for_none() -> None:
    assert "deploy" not in compose_file(replace(SPEC, gpus=()))


def specdeck(checkout: Checkout, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SPECDECK_ROOT": str(checkout.root)}
    return subprocess.run(
        [sys.executable, "-m", "specdeck", "compose", "r", *words], env=env, capture_output=True, text=True, check=False
    )


def test_the_command_writes_a_file_and_makes_the_cache_folder_it_mounts(checkout: Checkout, tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    done = specdeck(checkout, "--image", "i:1", "--output", str(path))
    assert done.returncode == 0, done.stderr
    volumes: list[dict[str, Any]] = yaml.safe_load(path.read_text())["services"]["vllm"]["volumes"]
    assert all((checkout.root / volume["source"]).is_dir() for volume in volumes)


@pytest.mark.parametrize(
    ("name", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_the_server_reads_the_cache_that_the_checkpoint_reader_finds(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, below: str
) -> None:
    for other in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, str(tmp_path / "weights"))
    checkout.recipe("r", RECIPE.replace("{path: models/target}", "{repo: some/model}"))
    done = specdeck(checkout, "--image", "i:1", "--arm", "mtp")
    assert done.returncode == 0, done.stderr
    volumes = yaml.safe_load(done.stdout)["services"]["vllm"]["volumes"]
    sources = {volume["target"]: volume["source"] for volume in volumes}
    assert sources["/hub"] == str(tmp_path / "weights" / below)
    assert hub_cache() == Path(sources["/hub"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "names no image"),
        (("--image", "i", "--restart", "always"), "no such restart policy"),
        (("--image", "i", "--api-key-file", "/nowhere/key"), "no such file"),
        (("--image", "i", "--gpus", "0"), "for 0 GPUs"),
    ],
)
def test_what_cannot_work_is_refused_with_a_way_out(checkout: Checkout, words: tuple[str, ...], said: str) -> None:
    done = specdeck(checkout, *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Fix:" in done.stderr


def test_an_arm_with_an_error_of_a_rule_gets_no_file_unless_it_is_allowed(checkout: Checkout, tmp_path: Path) -> None:
    checkout.recipe("r", RECIPE.replace("serve:\n", "serve:\n  env: {VLLM_USE_V2_MODEL_RUNNER: '0'}\n"))
    path = tmp_path / "compose.yml"
    words = ("--image", "i:1", "--arm", "dflash2", "--output", str(path))
    refused = specdeck(checkout, *words)
    assert refused.returncode == 1
    assert "v1-runner-refused" in refused.stderr
    assert "Fix:" in refused.stderr
    assert not path.exists()
    allowed = specdeck(checkout, *words, "--allow", "v1-runner-refused")
    assert allowed.returncode == 0, allowed.stderr
    assert "v1-runner-refused" in allowed.stderr
    assert path.is_file()


@pytest.mark.skipif(COMPOSE is None, reason="docker-compose is not installed")
def test_docker_compose_accepts_the_file_and_reads_the_same_server(tmp_path: Path) -> None:
    assert COMPOSE is not None
    path = tmp_path / "compose.yml"
    path.write_text(compose_file(SPEC))
    done = subprocess.run([COMPOSE, "-f", str(path), "config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)["services"]["vllm"]
    # `config` prints a file again, so its dollar signs stay doubled.
    assert [word.replace("$$", "$") for word in read["entrypoint"]] == list(SPEC.argv)
    assert {name: value.replace("$$", "$") for name, value in read["environment"].items()} == dict(SPEC.env)
    devices = read["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["device_ids"] == list(SPEC.gpus)
