"""The facts of a checkpoint: config.json with typed access, and bytes of weights by part. None means: not known."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specdeck.checkpoint.folder import locate, read_tensors
from specdeck.checkpoint.jsonfile import read_object
from specdeck.checkpoint.library import KnownModel, known_family, known_model
from specdeck.errors import SpecdeckError
from specdeck.recipe.resolve import display

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.checkpoint.headers import Tensor
    from specdeck.recipe.models import Checkpoint

# Layers, heads, widths: nothing a model has is larger, and arithmetic on larger numbers only hides a damaged file.
LARGEST = 2**40
MOST_LAYERS = 4096
MOST_FILES = 10_000
FAMILY_OF_ARCHITECTURE = {
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5ForCausalLM": "qwen3_5",
    "Qwen3NextForCausalLM": "qwen3_next",
    "Qwen4ExpForConditionalGeneration": "qwen4_exp",
    "Glm5NextForConditionalGeneration": "glm5_next",
    "GlmMoeDsaForCausalLM": "glm_moe_dsa",
    "DFlash2DraftModel": "dflash2",
    "DFlashDraftModel": "dflash",
}


@dataclass(frozen=True)
class CheckpointFacts:
    """What is known about a checkpoint without loading it.

    Attributes:
        name: repository or folder.
        config: contents of config.json, unchecked; empty: not known.
        architecture: as a recipe states it, for when there is no config.json.
        files: names of the files in its folder; None when it is not on this machine.
        shown: how messages name the file the config comes from.
        partial: the config holds published values only, so that a key it lacks is not known to be absent.
        revision: commit of the snapshot.
        weight_bytes: bytes of all tensors.
        part_bytes: bytes of parts that not every arm loads, that every GPU holds whole, or that stay in host memory:
            `mtp`, `vision`, `codebooks`, `ngram`; a part that is not listed is not known.
        parameters: how many, where only that was published.
        sources: where a number was published, when it does not come from the files themselves.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    files: frozenset[str] | None = None
    shown: str = "config.json"
    partial: bool = False
    revision: str | None = None
    weight_bytes: int | None = None
    part_bytes: Mapping[str, int] = field(default_factory=dict)
    parameters: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    # For arithmetic: a value of the wrong kind ends it.

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's config: `text_config` where there is one."""
        found = self.config.get("text_config")
        if found is None:
            return self.config
        if not isinstance(found, dict):
            raise self.wrong("text_config", "is not an object")
        return {**self.config, **found}

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

    # For rules: a value of the wrong kind is not known.

    def value(self, *path: str) -> Any:
        """Return a value of config.json, of its text_config where the top level lacks it; None when there is none."""
        text = self.config.get("text_config")
        for scope in (self.config, text if isinstance(text, dict) else None):
            found: Any = scope
            for part in path:
                found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                return found
        return None

    def integer(self, *path: str) -> int | None:
        """Return a whole number from 0, None for anything else."""
        found = self.value(*path)
        good = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST
        return found if good else None

    def word(self, *path: str) -> str | None:
        """Return a text, None for anything else."""
        found = self.value(*path)
        return found if isinstance(found, str) else None

    def integers(self, *path: str) -> list[int] | None:
        """Return a list of whole numbers, None for anything else."""
        found = self.value(*path)
        if not isinstance(found, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in found):
            return None
        return found

    @property
    def family(self) -> str | None:
        """The model family, from the architecture: `qwen3_5`, `qwen4_exp`, `glm5_next` and so on."""
        listed = self.value("architectures")
        name = listed[0] if isinstance(listed, list) and listed else self.architecture
        return FAMILY_OF_ARCHITECTURE.get(name) if isinstance(name, str) else None

    @property
    def hybrid(self) -> bool | None:
        """Whether some layers keep a recurrent state instead of a KV cache."""
        family = self.family
        return None if family is None else family in ("qwen3_5", "qwen3_next", "qwen4_exp", "glm5_next")

    @property
    def quantization(self) -> str | None:
        """The quantisation method in lower case; `none` when config.json declares none; None without a config.json."""
        if not self.config:
            return None
        declared = self.value("quantization_config") or self.value("compression_config")
        if not isinstance(declared, dict):
            return None if self.partial else "none"
        method = str(declared.get("quant_method", "unknown")).lower()
        algorithm = str(declared.get("quant_algo", declared.get("format", ""))).lower()
        return f"{method} {algorithm}".strip()

    @property
    def unquantized_modules(self) -> list[str] | None:
        """Module names and patterns that config.json leaves unquantised; None without a config.json."""
        declared = self.value("quantization_config")
        if not self.config or (self.partial and not isinstance(declared, dict)):
            return None
        lists = (
            [declared.get(key) for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")]
            if isinstance(declared, dict)
            else []
        )
        return [item for found in lists if isinstance(found, list) for item in found if isinstance(item, str)]


def load_facts(
    checkpoint: Checkpoint, root: Path, *, cache: Path | None = None, weights: bool = True
) -> CheckpointFacts | None:
    """Return what is known: from the files on this machine, else from models/*.yml; None: nothing is known.

    A repository without a file of its own there is taken for one of its family, by the architecture the recipe states.

    Args:
        checkpoint: as a recipe names it.
        root: the checkout.
        cache: the Hugging Face cache, instead of the one the environment names.
        weights: read the headers of weight files as well.

    Raises:
        SpecdeckError: files that are there are damaged; names the file and the key or byte.
    """
    located = locate(checkpoint, root, cache=cache)
    if located is None:
        return _published(checkpoint, root)
    config = located.folder / "config.json"
    found = CheckpointFacts(
        name=checkpoint.where,
        config=read_object(config),
        architecture=checkpoint.architecture,
        files=frozenset(entry.name for entry in itertools.islice(os.scandir(located.folder), MOST_FILES)),
        shown=display(config, root),
        revision=located.revision,
    )
    tensors = read_tensors(located.folder) if weights else ()
    if not tensors:
        return found
    return replace(found, weight_bytes=sum(tensor.nbytes for tensor in tensors), part_bytes=parts(tensors))


def published_facts(repo: str, root: Path) -> CheckpointFacts | None:
    """Return what models/*.yml holds about a repository; None: nothing.

    Raises:
        SpecdeckError: the file is wrong; names file, line and key.
    """
    known = known_model(repo, root)
    return _of(known, None) if known else None


def _published(checkpoint: Checkpoint, root: Path) -> CheckpointFacts | None:
    if checkpoint.repo is None:
        return None
    known = known_model(checkpoint.repo, root)
    if known is None and checkpoint.architecture:
        known = known_family(checkpoint.architecture, checkpoint.repo, root)
    if known is None:
        return None
    found = _of(known, checkpoint.architecture)
    if found.weight_bytes is None and checkpoint.size_bytes:
        sources = {**found.sources, "weight_bytes": "target.size_bytes of the recipe"}
        return replace(found, weight_bytes=checkpoint.size_bytes, sources=sources)
    return found


def _of(known: KnownModel, architecture: str | None) -> CheckpointFacts:
    return CheckpointFacts(
        name=known.repo,
        config=known.config,
        architecture=architecture,
        shown=known.shown,
        partial=True,
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
