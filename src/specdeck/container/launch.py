"""From what a person asked for to a container that may be started: image, secrets, overlays, folders to mount."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.checkpoint.folder import hub_cache
from specdeck.container.secrets import keep
from specdeck.container.spec import API_KEY, HF_TOKEN, Options, render
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.manifest import from_labels, mismatches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from docker.models.images import Image

    from specdeck.container.spec import ContainerSpec
    from specdeck.recipe import Recipe

RESTARTS = ("no", "unless-stopped")


@dataclass(frozen=True)
class Asked:
    """What the command line says about a container.

    Attributes:
        image: reference; None: the recipe's.
        gpus: comma-separated indices or UUIDs; None: the first ones.
        shm_size, restart: see Options.
        api_key_file, hf_token_file: files that hold a secret; None: VLLM_API_KEY and HF_TOKEN of the environment.
        force: start although another process holds a GPU, or the image is not the recipe's.
    """

    image: str | None = None
    gpus: str | None = None
    shm_size: str | None = None
    restart: str = "no"
    api_key_file: Path | None = None
    hf_token_file: Path | None = None
    force: bool = False

    def options(self, recipe: Recipe, *, host: str, port: int) -> Options:
        """Return what `render` takes.

        Raises:
            SpecdeckError: no image is named, the restart policy is unknown, or a file of a secret is not there.
        """
        reference = self.image or recipe.engine.image
        if reference is None:
            raise SpecdeckError(
                f"recipe {recipe.name} names no image", where="engine.image", fix="name one that has vLLM with --image"
            )
        if self.restart not in RESTARTS:
            raise SpecdeckError(
                f"no such restart policy: {self.restart}", where="--restart", fix="no or unless-stopped"
            )
        for path in (self.api_key_file, self.hf_token_file):
            if path is not None and not path.is_file():
                raise SpecdeckError("there is no such file", where=str(path), fix="write the secret into it, mode 0600")
        return Options(
            image=reference,
            gpus=tuple(word.strip() for word in self.gpus.split(",")) if self.gpus else (),
            host=host,
            port=port,
            shm_size=self.shm_size,
            user=f"{os.getuid()}:{os.getgid()}",
            restart=self.restart,
            hub=hub_cache().absolute(),
            api_key_file=self.api_key_file,
            hf_token_file=self.hf_token_file,
        )

    def api_key(self) -> str | None:
        """Return the key that requests must carry."""
        if self.api_key_file is not None:
            return self.api_key_file.read_text(encoding="utf-8").strip()
        return os.environ.get("VLLM_API_KEY") or None


def prepare(
    recipe: Recipe,
    arm: str,
    asked: Asked,
    *,
    image: Image,
    host: str,
    port: int,
    root: Path,
    folders: Mapping[str, Path],
) -> ContainerSpec:
    """Return the container of an arm, with folders to write to made, and secrets kept in memory.

    Raises:
        SpecdeckError: as Asked.options and render; a secret of the environment with a restart policy, which could not
            be read again after this machine has restarted.
    """
    options = asked.options(recipe, host=host, port=port)
    spec = render(recipe, arm, replace(options, image_id=str(image.id)), root=root, folders=folders)
    values = {
        API_KEY: None if asked.api_key_file else os.environ.get("VLLM_API_KEY"),
        HF_TOKEN: None if asked.hf_token_file else os.environ.get("HF_TOKEN"),
    }
    given = {name: value for name, value in values.items() if value}
    if given and asked.restart != "no":
        raise SpecdeckError(
            "a secret of the environment is kept in memory, and a container that restarts by itself could lose it",
            where="--restart",
            fix="give secrets as files: --api-key-file PATH --hf-token-file PATH (or unset VLLM_API_KEY and HF_TOKEN)",
        )
    kept = keep(spec.name, given)
    options = replace(
        options,
        image_id=str(image.id),
        api_key_file=kept.get(API_KEY, options.api_key_file),
        hf_token_file=kept.get(HF_TOKEN, options.hf_token_file),
    )
    spec = render(recipe, arm, options, root=root, folders=folders)
    make_folders(spec)
    return spec


def make_folders(spec: ContainerSpec) -> None:
    """Make the folders that a container writes to: Docker would make them as root, and the server could not write."""
    for mount in spec.mounts:
        if not mount.read_only:
            Path(mount.source).mkdir(parents=True, exist_ok=True)


def check_image(image: Image, recipe: Recipe, root: Path, *, force: bool, say: Callable[[str], None]) -> None:
    """Hold an image's manifest against the recipe.

    Raises:
        SpecdeckError: it is not the image that the recipe asks for, and `force` is not set; it cannot be shown to
            carry the patches that the recipe names.
    """
    manifest = from_labels(image.labels or {})
    if manifest is None:
        wrong = [f"it has no manifest, so nothing shows that it carries {', '.join(recipe.engine.patches)}"]
        wrong = wrong if recipe.engine.patches else []
    else:
        from specdeck.image.series import current_diffs, load_series  # noqa: PLC0415 - only images with a manifest need it

        series = load_series(root / "engines" / "patches")
        wrong = mismatches(manifest, recipe, current_diffs(series, manifest))
    if not wrong:
        return
    told = "\n".join(f"  {line}" for line in wrong)
    name = (image.tags or [str(image.id)])[0]
    if force:
        say(f"specdeck: the image is not the recipe's, and --force was given:\n{told}")
        return
    raise SpecdeckError(
        f"the image is not the one that recipe {recipe.name} asks for:\n{told}",
        where=name,
        fix=f"specdeck image build {recipe.name}, or another image with --image (--force starts it all the same)",
        exit_code=EXIT_FAILED,
    )
