"""What is known about a checkpoint and about this machine, without loading weights. None always means: not known."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - dataclasses read annotations
from dataclasses import dataclass
from typing import Any

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
LARGEST = 2**53


@dataclass(frozen=True)
class CheckpointFacts:
    """What a checkpoint's files say.

    Attributes:
        name: repository or folder.
        config: the contents of config.json, unchecked: use the typed accessors.
        architecture: as the recipe states it, for when there is no config.json.
        files: names of the files in its folder.
        shown: how messages name the file its config comes from.
        partial: the config holds published values only, so that a key it lacks is not known to be absent.
    """

    name: str
    config: Mapping[str, Any] | None = None
    architecture: str | None = None
    files: frozenset[str] | None = None
    shown: str = "config.json"
    partial: bool = False

    def value(self, *path: str) -> Any:
        """Return a value of config.json, of its text_config where the top level lacks it; None when there is none."""
        text = (self.config or {}).get("text_config")
        for scope in (self.config, text if isinstance(text, dict) else None):
            found: Any = scope
            for part in path:
                found = found.get(part) if isinstance(found, dict) else None
            if found is not None:
                return found
        return None

    def integer(self, *path: str) -> int | None:
        """Return a whole number from 0, None for anything else."""
        found = self.value(*path)
        good = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LARGEST
        return found if good else None

    def text(self, *path: str) -> str | None:
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
        if self.config is None:
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
        if self.config is None or (self.partial and not isinstance(declared, dict)):
            return None
        lists = (
            [declared.get(key) for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")]
            if isinstance(declared, dict)
            else []
        )
        return [item for found in lists if isinstance(found, list) for item in found if isinstance(item, str)]


@dataclass(frozen=True)
class HostFacts:
    """What is known about the machine that will serve.

    Attributes:
        driver: NVIDIA driver version.
        capabilities: compute capability of each GPU, such as (8, 6).
        nvlink: whether GPUs are joined by NVLink.
        used_gib: memory in use on each GPU before the start, GiB.
        packages: distributions in the engine's environment, lower-case name to version.
    """

    driver: str | None = None
    capabilities: tuple[tuple[int, int], ...] | None = None
    nvlink: bool | None = None
    used_gib: tuple[float, ...] | None = None
    packages: Mapping[str, str] | None = None
