"""Everything that would make a start fail late, asked before it: GPUs, driver, Docker, disk, other containers.

One function for each question; each returns what is wrong. Nothing is changed.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdeck.checkpoint.folder import hub_cache, locate
from specdeck.container.cards import GIB, look
from specdeck.container.running import ours
from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError
from specdeck.planner.plan import DEFAULT_UTILISATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.images import Image

    from specdeck.container.cards import Card, Cards
    from specdeck.container.spec import ContainerSpec
    from specdeck.recipe import Recipe

DOCKER_ROOM = 2 * GIB
CACHE_ROOM = 5 * GIB
_CUDA = re.compile(r"cuda>=(\d+)\.(\d+)")
_HOOKS = ("nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk")


@dataclass(frozen=True)
class Trouble:
    """One thing that stands in the way. `forced`: a person may decide to start all the same."""

    what: str
    fix: str
    forced: bool = False


def preflight(
    client: DockerClient,
    image: Image,
    recipe: Recipe,
    arm: str,
    spec: ContainerSpec,
    *,
    root: Path,
    force: bool,
    say: Callable[[str], None],
    nvml: Any = None,
) -> None:
    """Ask all questions and tell all answers at once.

    Args:
        client: the engine.
        image: what will be started.
        recipe: the resolved recipe.
        arm: its arm.
        spec: the container.
        root: the checkout.
        force: start although GPUs are in use.
        say: told what was overridden.
        nvml: the pynvml module; a test gives its own.

    Raises:
        SpecdeckError: something stands in the way.
    """
    running = ours(client)
    found = [*on_disk(recipe, arm, root), *docker_room(client.info())]
    if spec.gpus:
        names = {str(container.id): str(container.name) for container in client.containers.list()}
        cards = look(nvml if nvml is not None else _pynvml(), names)
        share = recipe.serve_of(arm).gpu_memory_utilization or DEFAULT_UTILISATION
        found += [
            *nvidia_in_docker(client.info()),
            *gpus_are_there(cards, spec.gpus),
            *driver_runs(cards, (image.attrs.get("Config") or {}).get("Env") or []),
            *same_gpus(running, spec),
        ]
        if cards is not None:
            found += gpus_are_free(cards.chosen(spec.gpus)[0], share)
    for trouble in found:
        if trouble.forced and force:
            say(f"specdeck: {trouble.what} (--force was given)")
    left = [trouble for trouble in found if not (trouble.forced and force)]
    if left:
        raise SpecdeckError(
            "this machine cannot serve it now:\n" + "\n".join(f"  {trouble.what}" for trouble in left),
            where=f"{recipe.name}, arm {arm}",
            fix="; ".join(dict.fromkeys(trouble.fix for trouble in left)),
            exit_code=EXIT_UNMEASURABLE,
        )


def gpus_are_there(cards: Cards | None, named: Sequence[str]) -> Iterator[Trouble]:
    """Whether the driver shows the GPUs."""
    if cards is None:
        yield Trouble("no NVIDIA driver answers, and the recipe needs GPUs", "nvidia-smi")
        return
    for name in cards.chosen(named)[1]:
        there = ", ".join(f"{card.index} {card.name} {card.uuid}" for card in cards.cards) or "none"
        yield Trouble(f"there is no GPU {name!r} (there is: {there})", "nvidia-smi -L, then name them with --gpus")


def gpus_are_free(cards: Sequence[Card], share: float) -> Iterator[Trouble]:
    """Whether nobody else holds the GPUs, and vLLM finds the share of memory that it will ask for."""
    for card in cards:
        for holder in card.holders:
            yield Trouble(
                f"GPU {card.index} is in use by {holder.line()}",
                "end that process, or start all the same with --force",
                forced=True,
            )
        if card.free < share * card.total:
            yield Trouble(
                f"GPU {card.index} has {card.free / GIB:.1f} of {card.total / GIB:.1f} GiB free, and "
                f"gpu_memory_utilization {share:g} asks for {share * card.total / GIB:.1f}",
                "free the memory (nvidia-smi), or lower serve.gpu_memory_utilization",
            )


def driver_runs(cards: Cards | None, env: Sequence[str]) -> Iterator[Trouble]:
    """Whether the driver is new enough for the CUDA that the image says it needs (NVIDIA_REQUIRE_CUDA)."""
    required = next((word.partition("=")[2] for word in env if word.startswith("NVIDIA_REQUIRE_CUDA=")), "")
    match = _CUDA.search(required)
    if cards is None or cards.cuda is None or match is None:
        return
    needed = (int(match[1]), int(match[2]))
    if cards.cuda < needed:
        yield Trouble(
            f"the driver {cards.driver} runs CUDA {cards.cuda[0]}.{cards.cuda[1]} at most, "
            f"and the image needs {needed[0]}.{needed[1]}",
            "install a newer driver, or name an image for an older CUDA with --image",
        )


def nvidia_in_docker(info: Mapping[str, Any]) -> Iterator[Trouble]:
    """Whether Docker can hand GPUs to a container."""
    if "nvidia" in (info.get("Runtimes") or {}) or any(shutil.which(name) for name in _HOOKS):
        return
    yield Trouble(
        "Docker has no NVIDIA runtime",
        "install nvidia-container-toolkit, then run: sudo nvidia-ctk runtime configure --runtime=docker",
    )


def same_gpus(running: Sequence[Container], spec: ContainerSpec) -> Iterator[Trouble]:
    """Whether another container of ours has one of the GPUs."""
    for container in running:
        theirs = set(filter(None, container.labels.get("io.specdeck.gpus", "").split(",")))
        if container.status == "running" and container.name != spec.name and theirs & set(spec.gpus):
            yield Trouble(
                f"{container.name} runs on GPU {', '.join(sorted(theirs & set(spec.gpus)))}",
                f"specdeck stop {container.name}",
                forced=True,
            )


def on_disk(recipe: Recipe, arm: str, root: Path) -> Iterator[Trouble]:
    """Whether weights that are still to be downloaded fit, and the compile caches."""
    needed = 0
    drafter = recipe.drafter if recipe.arms[arm].method == "dflash" else None
    for checkpoint in (recipe.target, drafter):
        if checkpoint is not None and checkpoint.repo and locate(checkpoint, root) is None:
            needed += checkpoint.size_bytes or 0
    for folder, bytes_needed, what in ((hub_cache(), needed, "weights"), (root, CACHE_ROOM, "compile caches")):
        free = shutil.disk_usage(nearest_folder(folder)).free
        if bytes_needed and free < bytes_needed:
            yield Trouble(
                f"{what} need {bytes_needed / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free at {folder}",
                f"free some space there (df -h {nearest_folder(folder)}), or set HF_HUB_CACHE to another disk",
            )


def docker_room(info: Mapping[str, Any]) -> Iterator[Trouble]:
    """Whether Docker can write a container's own layer and log."""
    folder = Path(str(info.get("DockerRootDir") or ""))
    if not folder.is_absolute() or not os.access(folder, os.X_OK):
        return  # another machine's, or not ours to see
    free = shutil.disk_usage(folder).free
    if free < DOCKER_ROOM:
        yield Trouble(f"{free / GIB:.1f} GiB are free where Docker keeps its data, {folder}", "docker system prune")


def nearest_folder(path: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    path = path.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


def _pynvml() -> Any:
    import pynvml  # noqa: PLC0415 - only GPU recipes ask

    return pynvml
