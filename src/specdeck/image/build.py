"""Builds an image for a recipe with docker/Dockerfile, and labels it with the manifest that the build wrote."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from specdeck.engine.install import LOCKS
from specdeck.engine.install import VLLM as CPU_VLLM
from specdeck.engine.pip_command import CommandFailed, explain, run_command
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.docker_cli import Docker, pinned
from specdeck.image.manifest import LABEL, PATH, Manifest, dump, load, mismatches
from specdeck.image.series import Series, current_diffs, load_series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from specdeck.recipe.models import Recipe

CPU_BASE = "python:3.11-slim-bookworm"
"""Base of the CPU variant where none is named; pinned by digest when it is pulled."""
WHEEL_SECONDS = 3600


@dataclass(frozen=True)
class Source:
    """A vLLM to build from source.

    Attributes:
        repository: URL that the build clones.
        commit: full hash.
        pulls: pull requests as `NUMBER@HEAD`, merged in this order; heads are full hashes.
        requirements: requirements file of the build, in the source; empty: none.
    """

    repository: str
    commit: str
    pulls: tuple[str, ...] = ()
    requirements: str = ""

    def arguments(self) -> dict[str, str]:
        """Return the arguments of docker/Dockerfile.source."""
        return {
            "REPOSITORY": self.repository,
            "COMMIT": self.commit,
            "PULLS": " ".join(self.pulls),
            "BUILD_REQUIREMENTS": self.requirements,
        }


@dataclass(frozen=True)
class Request:
    """What to build.

    Attributes:
        recipe: the recipe that the image is for.
        base: base image.
        vllm: release to install, or that the base must have; None: whatever the base has.
        cuda_archs: GPU architectures to compile FlashInfer's top-k for, such as `8.6 9.0a`.
        tag: name of the image; None: made from recipe, version and manifest.
        network: whether steps of the build may use the host's network.
        source: build vLLM from source; None: a release or the base's own.
    """

    recipe: Recipe
    base: str
    vllm: str | None = None
    cuda_archs: str = ""
    tag: str | None = None
    network: bool = True
    source: Source | None = None


@dataclass(frozen=True)
class Built:
    """An image that was built: its name, its id, and what it is made of."""

    tag: str
    image_id: str
    manifest: Manifest


def request(
    recipe: Recipe,
    *,
    runtime: str | None = None,
    base: str | None = None,
    vllm: str | None = None,
    cuda_archs: str = "",
    tag: str | None = None,
    network: bool = True,
    source: Source | None = None,
) -> Request:
    """Check what is asked for against the recipe, before anything is fetched.

    Raises:
        SpecdeckError: another device or version than the recipe's, or no base to build upon.
    """
    device = recipe.hardware.device
    if runtime is not None and runtime != device:
        raise SpecdeckError(
            f"recipe {recipe.name} is for {device}, and an image for {runtime} could not serve it",
            where="--runtime",
            fix=f"leave --runtime out, or say {device}",
        )
    if source is not None:
        _check_source(source, vllm)
    wanted = vllm or (CPU_VLLM if device == "cpu" else None)
    if device == "cpu" and source is None and wanted != CPU_VLLM:
        raise SpecdeckError(
            f"the CPU variant is made from the lock files of engines/cpu, which are of vLLM {CPU_VLLM}",
            where="--vllm",
            fix="leave --vllm out",
        )
    if wanted is not None and Version(wanted) not in SpecifierSet(recipe.engine.vllm, prereleases=True):
        raise SpecdeckError(
            f"recipe {recipe.name} is for vLLM {recipe.engine.vllm}, and not for {wanted}",
            where="engine.vllm",
            fix="name a version that the recipe is for, or change the recipe",
        )
    chosen = base or recipe.engine.image or (CPU_BASE if device == "cpu" else None)
    if chosen is None:
        raise SpecdeckError(
            f"recipe {recipe.name} names no image to build upon", where="engine.image", fix="name one with --base"
        )
    return Request(recipe, chosen, wanted, cuda_archs, tag, network, source)


def build(asked: Request, root: Path, docker: Docker, progress: Callable[[str], None]) -> Built:
    """Build an image and label it.

    Args:
        asked: what to build.
        root: the checkout; wheels and logs are kept below its `.cache/image`.
        docker: the command to build with.
        progress: told each step, a line at a time.

    Raises:
        SpecdeckError: a patch is unknown or does not apply, a wheel or base cannot be had, or the build failed. No
            image of the wanted name is made then.
    """
    recipe, device = asked.recipe, asked.recipe.hardware.device
    series = load_series(root / "engines" / "patches")
    patches = [entry.id for entry in series.in_order(recipe.engine.patches)]
    cache = root / ".cache" / "image"
    with only_one(cache):
        log = cache / "logs" / f"{recipe.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        progress(f"log: {log}")
        base, digest = pinned(docker, asked.base, progress)
        prepare_wheels(root, device, progress)
        arguments = {
            "BASE": base,
            "BASE_DIGEST": digest or "",
            "DEVICE": device,
            "PATCHES": ",".join(patches),
            "VLLM_VERSION": asked.vllm or "",
            **({"CUDA_ARCHS": asked.cuda_archs} if asked.source is None else asked.source.arguments()),
        }
        name = f"specdeck-unlabelled:{os.getpid()}"
        file = "Dockerfile" if asked.source is None else "Dockerfile.source"
        words = ["--file", str(root / "docker" / file), "--tag", name]
        words += [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
        words += ["--network", "host" if asked.network else "none", str(root)]
        docker.build(words, log, progress)
        try:
            return _labelled(docker, name, asked, series, log, progress)
        finally:
            docker.output("image", "rm", name)


def prepare_wheels(root: Path, device: str, progress: Callable[[str], None]) -> None:
    """Fill `.cache/image/wheels`, from which the build installs: with the user's own pip configuration, hashes checked.

    Only for the CPU variant, and only where this Python is the image's 3.11; otherwise the build asks the index itself.

    Raises:
        SpecdeckError: pip could not fetch them.
    """
    wheels, kept = root / ".cache" / "image" / "wheels", root / ".cache" / "image" / "cpu-wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    if device != "cpu" or sys.version_info[:2] != (3, 11):
        return
    locks = root / "engines" / "cpu"
    stamp = hashlib.sha256(b"".join((locks / name).read_bytes() for name in LOCKS)).hexdigest()
    if not (kept / "stamp").is_file() or (kept / "stamp").read_text("utf-8") != stamp:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        progress("fetching the wheels of engines/cpu (about 850 MB)")
        try:
            try:
                _fetch(locks / "torch-cpu.lock", kept)
            except CommandFailed as failure:
                if not failure.unavailable:
                    raise
                _fetch(locks / "torch-any.lock", kept)
            _fetch(locks / "requirements.lock", kept)
        except CommandFailed as failure:
            raise explain(failure, kept) from None
        (kept / "stamp").write_text(stamp, encoding="utf-8")
    for wheel in kept.glob("*.whl"):
        os.link(wheel, wheels / wheel.name)


@contextlib.contextmanager
def only_one(cache: Path) -> Iterator[None]:
    """Hold the folder for one build at a time.

    Raises:
        SpecdeckError: another build holds it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecdeckError(
                "another image is being built from this checkout",
                where=str(cache / "lock"),
                fix=f"wait for it, or see which process it is: fuser '{cache / 'lock'}'",
            ) from None
        yield


def _check_source(source: Source, vllm: str | None) -> None:
    if vllm is None:
        raise SpecdeckError(
            "a build from source does not say which vLLM it is", where="--source", fix="say it: --vllm 0.33.0.dev7"
        )
    for text, pattern, where in [
        (source.commit, r"[0-9a-f]{40}", "--commit"),
        *((pull, r"[1-9]\d*@[0-9a-f]{40}", "--pull") for pull in source.pulls),
    ]:
        if not re.fullmatch(pattern, text):
            raise SpecdeckError(
                f"{text!r} is no pin: hashes are written out, 40 hex digits",
                where=where,
                fix="git ls-remote REPOSITORY, then --commit HASH or --pull NUMBER@HASH",
            )
    if "@" in source.repository.removeprefix("git@") and "://" in source.repository:
        raise SpecdeckError(
            "the repository's URL holds a user or password, and it would be written into the image",
            where="--source",
            fix="name a repository that can be cloned without one",
        )


def _fetch(lock: Path, folder: Path) -> None:
    run_command(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--only-binary=:all:", "--require-hashes", "--no-deps", "-r", str(lock), "--dest", str(folder)),
        ],
        timeout=WHEEL_SECONDS,
        progress=None,
    )


def _labelled(
    docker: Docker, name: str, asked: Request, series: Series, log: Path, progress: Callable[[str], None]
) -> Built:
    text = docker.require("run", "--rm", "--network", "none", "--entrypoint", "cat", name, PATH)
    manifest = load(text.encode())
    wrong = mismatches(manifest, asked.recipe, current_diffs(series, manifest))
    if wrong:
        raise SpecdeckError(
            f"the image is not the one that recipe {asked.recipe.name} asks for: {'; '.join(wrong)}",
            where=asked.base,
            fix="name another base (--base) or release (--vllm)",
            exit_code=EXIT_FAILED,
        )
    short = hashlib.sha256(dump(manifest)).hexdigest()[:8]
    tag = asked.tag or f"specdeck/{asked.recipe.name}:{manifest.vllm}-{short}"
    labels = {
        LABEL: dump(manifest).decode(),
        "org.opencontainers.image.title": f"vLLM {manifest.vllm} for {asked.recipe.name}",
        "org.opencontainers.image.version": manifest.vllm,
        "org.opencontainers.image.base.name": manifest.base.ref,
        **({"org.opencontainers.image.base.digest": manifest.base.digest} if manifest.base.digest else {}),
    }
    words = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    # A label cannot hold what a build's own steps find out, so a second, empty build adds it.
    folder = log.parent / "label"
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(f"FROM {name}\n", encoding="utf-8")
    progress("adding the manifest as a label")
    docker.build([*words, "--tag", tag, str(folder)], log, lambda _line: None)
    image_id = docker.require("image", "inspect", "--format", "{{.Id}}", tag).strip()
    return Built(tag, image_id, manifest)
