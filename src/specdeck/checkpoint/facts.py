"""The facts of a checkpoint: config.json with typed access, and bytes of weights by part. None means: not known."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclasses read annotations
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specdeck.checkpoint.folder import locate, read_tensors
from specdeck.checkpoint.jsonfile import read_object
from specdeck.checkpoint.library import KnownModel, known_family, known_model
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.checkpoint.headers import Tensor
    from specdeck.recipe.models import Checkpoint

# Layers, heads, widths: nothing a model has is larger, and arithmetic on larger numbers only hides a damaged file.
LARGEST = 2**40
MOST_LAYERS = 4096


@dataclass(frozen=True)
class CheckpointFacts:
    """What is known about a checkpoint without loading it.

    Attributes:
        name: repository or folder.
        shown: how messages name the file the config comes from.
        config: contents of config.json.
        files: names of the files in its folder; None when it is not on this machine.
        revision: commit of the snapshot.
        weight_bytes: bytes of all tensors.
        part_bytes: bytes of parts that not every arm loads, that every GPU holds whole, or that stay in host memory:
            `mtp`, `vision`, `codebooks`, `ngram`; a part that is not listed is not known.
        parameters: how many, where only that was published.
        sources: where a number was published, when it does not come from the files themselves.
    """

    name: str
    shown: str
    config: Mapping[str, Any]
    files: frozenset[str] | None = None
    revision: str | None = None
    weight_bytes: int | None = None
    part_bytes: Mapping[str, int] = field(default_factory=dict)
    parameters: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's config: `text_config` where there is one."""
        found = self.config.get("text_config")
        if found is None:
            return self.config
        if not isinstance(found, dict):
            raise self.wrong("text_config", "is not an object")
        return {**self.config, **found}

    @property
    def architecture(self) -> str | None:
        """First entry of `architectures`."""
        found = self.config.get("architectures")
        if found is None:
            return None
        if not isinstance(found, list) or not found or not isinstance(found[0], str):
            raise self.wrong("architectures", "is not a list of names")
        return found[0]

    def number(self, key: str, *, least: int = 0, most: int = LARGEST) -> int | None:
        """Return a whole number of the language model's config, None when the key is absent or null.

        Raises:
            SpecdeckError: it is something else, or out of range; names file and key.
        """
        return self._whole(self.text.get(key), key, least, most)

    def within(self, name: str, key: str, *, least: int = 1) -> int | None:
        """Return a whole number of an object of the language model's config, None when either is absent or null.

        Raises:
            SpecdeckError: it is something else, or out of range; names file and key.
        """
        return self._whole((self.object(name) or {}).get(key), f"{name}.{key}", least, LARGEST)

    def _whole(self, value: Any, key: str, least: int, most: int) -> int | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"is not a whole number from {least} to {most}")
        return value

    def object(self, key: str) -> Mapping[str, Any] | None:
        """Return an object of the language model's config, None when the key is absent or null.

        Raises:
            SpecdeckError: it is something else.
        """
        value = self.text.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "is not an object")
        return value

    @property
    def layer_types(self) -> tuple[str, ...] | None:
        """Kind of every layer; made from `full_attention_interval` (4 for glm5_next) where the config has no list."""
        found = self.text.get("layer_types")
        layers = self.number("num_hidden_layers", least=1, most=MOST_LAYERS)
        if found is not None:
            if (
                not isinstance(found, list)
                or not all(isinstance(kind, str) for kind in found)
                or len(found) > MOST_LAYERS
            ):
                raise self.wrong("layer_types", "is not a list of names")
            if layers is not None and layers != len(found):
                raise self.wrong("layer_types", f"has {len(found)} entries, and num_hidden_layers is {layers}")
            return tuple(found)
        glm = str(self.text.get("model_type")).startswith("glm5_next")
        interval = self.number("full_attention_interval", least=1) or (4 if glm else None)
        if layers is None or interval is None:
            return None
        return tuple("linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers))

    def wrong(self, key: str, what: str) -> SpecdeckError:
        """Return an error about a key of this config."""
        return SpecdeckError(
            f"{key} {what}", where=f"{self.shown}: {key}", fix="download the checkpoint again, or correct the file"
        )


def load_facts(checkpoint: Checkpoint, root: Path, *, cache: Path | None = None) -> CheckpointFacts | None:
    """Return what is known: from the files on this machine, else from models/*.yml; None: nothing is known.

    A repository without a file of its own there is taken for one of its family, by the architecture the recipe states.

    Args:
        checkpoint: as a recipe names it.
        root: the checkout.
        cache: the Hugging Face cache, instead of the one the environment names.

    Raises:
        SpecdeckError: files that are there are damaged; names the file and the key or byte.
    """
    located = locate(checkpoint, root, cache=cache)
    if located is None:
        return _published(checkpoint, root)
    config = read_object(located.folder / "config.json")
    tensors = read_tensors(located.folder)
    return CheckpointFacts(
        name=checkpoint.where,
        shown=str(located.folder / "config.json"),
        config=config,
        files=frozenset(path.name for path in located.folder.iterdir()),
        revision=located.revision,
        weight_bytes=sum(tensor.nbytes for tensor in tensors) if tensors else None,
        part_bytes=parts(tensors) if tensors else {},
    )


def published_facts(repo: str, root: Path) -> CheckpointFacts | None:
    """Return what models/*.yml holds about a repository; None: nothing.

    Raises:
        SpecdeckError: the file is wrong; names file, line and key.
    """
    known = known_model(repo, root)
    return _of(known) if known else None


def _published(checkpoint: Checkpoint, root: Path) -> CheckpointFacts | None:
    if checkpoint.repo is None:
        return None
    known = known_model(checkpoint.repo, root)
    if known is None and checkpoint.architecture:
        known = known_family(checkpoint.architecture, checkpoint.repo, root)
    if known is None:
        return None
    found = _of(known)
    if found.weight_bytes is None and checkpoint.size_bytes:
        sources = {**found.sources, "weight_bytes": "target.size_bytes of the recipe"}
        return replace(found, weight_bytes=checkpoint.size_bytes, sources=sources)
    return found


def _of(known: KnownModel) -> CheckpointFacts:
    return CheckpointFacts(
        name=known.repo,
        shown=known.shown,
        config=known.config,
        weight_bytes=known.weight_bytes,
        part_bytes=known.part_bytes,
        parameters=known.parameters,
        sources=known.sources,
    )


def parts(tensors: tuple[Tensor, ...]) -> dict[str, int]:
    """Sum the bytes of the parts that are told apart by tensor names."""
    found = {"mtp": 0, "vision": 0, "codebooks": 0, "ngram": 0}
    for tensor in tensors:
        words = tensor.name.split(".")
        if any("ngram_embedding" in word for word in words):
            found["ngram"] += tensor.nbytes
        elif "mtp" in words:
            found["mtp"] += tensor.nbytes
        elif {"visual", "vision_tower", "vision_model"} & set(words):
            found["vision"] += tensor.nbytes
        elif words[-1].endswith("_codebook") or (len(words) > 1 and words[-2].endswith("_codebook")):
            found["codebooks"] += tensor.nbytes
    return found
