"""Renders one arm of a recipe into a container: a pure function of its arguments, without a Docker engine.

The command is the one that the local runtime would run; a container adds mounts, caches, GPUs and a health check.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.engine.command import build_command
from specdeck.errors import SpecdeckError
from specdeck.recipe.files import checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.engine.command import EngineCommand
    from specdeck.recipe.models import Checkpoint, Recipe

PORT = 8000
"""The port inside the container; the published one is chosen by the caller."""
SECRETS = "/run/secrets"
HUB = "/hub"
API_KEY, HF_TOKEN = "vllm_api_key", "hf_token"  # names of files
# vLLM reads its key from a variable or an argument only. Reading the file inside keeps the key out of the container's
# configuration, which `docker inspect` shows to everyone in the docker group, and out of every argument list.
_WITH_KEY = f'VLLM_API_KEY=$(cat {SECRETS}/{API_KEY}) || exit 2; export VLLM_API_KEY; exec "$@"'
_HEALTH = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{PORT}/health', timeout=5)"
# Options that change nothing that is compiled. Everything else gets a cache of its own: a stale one is a known trap.
_NOT_COMPILED = ("--served-model-name", "--host", "--port", "--chat-template", "--reasoning-parser")


@dataclass(frozen=True)
class Mount:
    """A folder of the host inside the container."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class Options:
    """What the recipe does not say.

    Attributes:
        image: reference to run.
        image_id: its id where it is known; keys the caches, as a tag can move.
        gpus: indices or UUIDs; empty: the first ones, as many as the recipe says.
        host, port: where the server is published.
        shm_size: private shared memory such as `16g`; None: the host's (`ipc: host`).
        user: `uid:gid` the server runs as, so that caches belong to the caller; None: the image's own.
        restart: restart policy.
        hub: the host's Hugging Face cache, as `specdeck.checkpoint.folder.hub_cache` finds it.
        api_key_file, hf_token_file: files that hold a secret; only their paths are ever written down.
    """

    image: str
    image_id: str | None = None
    gpus: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = PORT
    shm_size: str | None = None
    user: str | None = None
    restart: str = "no"
    hub: Path | None = None
    api_key_file: Path | None = None
    hf_token_file: Path | None = None


@dataclass(frozen=True)
class ContainerSpec:
    """A container, ready to be created. Holds no secret: `secrets` maps a name to the file it is in."""

    name: str
    image: str
    served_model: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    secrets: Mapping[str, str]
    gpus: tuple[str, ...]
    host: str
    port: int
    shm_size: str | None
    user: str | None
    restart: str
    labels: Mapping[str, str]
    health: tuple[str, ...]
    start_period_s: int


def render(
    recipe: Recipe, arm: str, options: Options, *, root: Path, folders: Mapping[str, Path] | None = None
) -> ContainerSpec:
    """Render one arm.

    Args:
        recipe: the resolved recipe.
        arm: the arm to serve.
        options: image, GPUs, port and the rest that the recipe leaves open.
        root: the checkout; caches are kept below it.
        folders: overlays to serve, by `target` and `drafter`.

    Raises:
        SpecdeckError: as build_command; the recipe spans machines, or other than its number of GPUs is named.
    """
    if recipe.hardware.nodes > 1:
        raise SpecdeckError(
            f"recipe {recipe.name} spans {recipe.hardware.nodes} machines, and one container cannot",
            where="hardware.nodes",
            fix="start vLLM on every machine by hand, then measure it with --base-url",
        )
    gpus = _gpus(recipe, options.gpus)
    command = build_command(
        recipe,
        arm,
        python=Path("/python3"),  # replaced below: the image's own
        host="0.0.0.0",  # noqa: S104 - inside the container; what is published is options.host
        port=PORT,
        root=root,
        folders=folders,
    )
    argv = ("python3", *command.argv[1:])
    key = cache_key(options.image_id or options.image, argv, command.env)
    repositories = [c for c in (recipe.target, _drafter(recipe, arm)) if c is not None and c.repo]
    hub = options.hub if repositories else None
    secrets = {API_KEY: options.api_key_file, HF_TOKEN: options.hf_token_file if repositories else None}
    labels = {
        "recipe": recipe.name,
        "arm": arm,
        "gpus": ",".join(gpus),
        "host": options.host,
        "port": str(options.port),
    }
    labels["cache"] = key
    return ContainerSpec(
        name=f"specdeck-{recipe.name}-{arm}-{options.port}",
        image=options.image,
        served_model=command.served_model,
        argv=("sh", "-c", _WITH_KEY, "sh", *argv) if options.api_key_file else argv,
        env=_environment(command, hub, token=secrets[HF_TOKEN] is not None),
        mounts=(
            *(Mount(path, path, read_only=True) for path in _model_folders(recipe, arm, root, folders or {})),
            *([Mount(template, template, read_only=True)] if (template := _template(recipe, arm, root)) else []),
            *([Mount(str(hub), HUB, read_only=False)] if hub else []),
            Mount(str(root / ".cache" / "containers" / key), "/cache", read_only=False),
        ),
        secrets={name: str(path.absolute()) for name, path in secrets.items() if path},
        gpus=gpus,
        host=options.host,
        port=options.port,
        shm_size=options.shm_size,
        user=options.user,
        restart=options.restart,
        labels={f"io.specdeck.{name}": value for name, value in labels.items()},
        health=("python3", "-c", _HEALTH),
        start_period_s=int(recipe.engine.ready_timeout_s),
    )


def cache_key(image: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the key of the compile caches: 16 hex digits of image, arguments and environment.

    Arguments that change nothing that is compiled do not count.
    """
    counted: list[str] = []
    skip = False
    for word in argv:
        if word.startswith("--"):
            skip = word.split("=", 1)[0] in _NOT_COMPILED
        if not skip:
            counted.append(word)
    return hashlib.sha256(json.dumps([image, counted, sorted(env.items())]).encode()).hexdigest()[:16]


def _environment(command: EngineCommand, hub: Path | None, *, token: bool) -> dict[str, str]:
    env = {
        # Any user id works: torch asks for the user's name, and an id without a passwd entry has none.
        "HOME": "/cache/home",
        "USER": "specdeck",
        "VLLM_CACHE_ROOT": "/cache/vllm",
        "TRITON_CACHE_DIR": "/cache/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/cache/inductor",
        "FLASHINFER_WORKSPACE_BASE": "/cache/flashinfer",
    }
    if hub:
        # The cache alone: the folder around it also holds the token that `hf auth login` keeps.
        env |= {"HF_HUB_CACHE": HUB, "HF_HOME": "/cache/huggingface"}
    if token:
        env["HF_TOKEN_PATH"] = f"{SECRETS}/{HF_TOKEN}"
    return env | dict(command.env)


def _gpus(recipe: Recipe, named: tuple[str, ...]) -> tuple[str, ...]:
    count = recipe.hardware.gpus
    gpus = named or tuple(str(index) for index in range(count))
    if len(set(gpus)) != count or len(gpus) != count:
        raise SpecdeckError(
            f"recipe {recipe.name} is for {count} GPUs, and {len(set(gpus))} different ones are named",
            where="--gpus",
            fix=f"name {count}, by index or UUID (nvidia-smi -L)" if count else "leave --gpus out",
        )
    return gpus


def _entries(folder: Path) -> list[Path]:
    """What a folder holds; nothing for an overlay that a dry run has not built."""
    return list(folder.iterdir()) if folder.is_dir() else []


def _drafter(recipe: Recipe, arm: str) -> Checkpoint | None:
    """The drafter's checkpoint, where this arm reads it."""
    return recipe.drafter if recipe.arms[arm].method == "dflash" else None


def _template(recipe: Recipe, arm: str, root: Path) -> str | None:
    named = recipe.serve_of(arm).chat_template
    return str(root / named) if named and (root / named).is_file() else None


def _model_folders(recipe: Recipe, arm: str, root: Path, folders: Mapping[str, Path]) -> list[str]:
    """Every folder the server reads, at its own path: an overlay's links are absolute and must hold inside too."""
    found: set[str] = set()
    for role, checkpoint in (("target", recipe.target), ("drafter", _drafter(recipe, arm))):
        if checkpoint is None:
            continue
        served = folders.get(role) or checkpoint_folder(checkpoint, root)
        if served is None:
            continue
        found.add(str(served.absolute()))
        found |= {str(path.resolve().parent) for path in _entries(served) if path.is_symlink()}
    return sorted(found)
