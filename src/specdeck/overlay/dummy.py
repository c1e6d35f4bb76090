"""Folders to serve with dummy weights: a checkpoint's config.json and a tokenizer, and nothing that weighs.

What was published of a config is in models/*.yml; keys that only serving needs and nobody published stand there under
`dummy`, apart, because they are assumed. A tokenizer that is not on this machine is made: one token for each byte, and
names for the rest of the vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdeck.checkpoint.folder import locate
from specdeck.checkpoint.jsonfile import read_object
from specdeck.checkpoint.library import known_model, model_file
from specdeck.errors import SpecdeckError
from specdeck.overlay.spec import apply, load_overlay
from specdeck.recipe.resolve import display

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specdeck.recipe.models import Checkpoint, Recipe

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SERVED_AS = {"Qwen3_5ForConditionalGeneration": "Qwen3_5ForCausalLM"}
"""Text part of an architecture that also sees: dummy weights are for the language model alone."""
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".index.json")
MAX_VOCABULARY = 2_000_000


def dummy_folders(recipe: Recipe, arm_name: str, root: Path) -> dict[str, Path]:
    """Build what an arm needs and return the folders to serve, by `target` and `drafter`.

    Raises:
        SpecdeckError: too little is known of a checkpoint's config.
    """
    wanted = {"target": recipe.target}
    if recipe.arms[arm_name].method == "dflash" and recipe.drafter is not None:
        wanted["drafter"] = recipe.drafter
    names = {"target": recipe.overlays.target, "drafter": recipe.overlays.drafter}
    return {role: build_dummy(checkpoint, role, root, overlay=names[role]) for role, checkpoint in wanted.items()}


def build_dummy(
    checkpoint: Checkpoint, role: str, root: Path, *, overlay: str | None = None, cache: Path | None = None
) -> Path:
    """Build the folder of a checkpoint, or keep the one that is there.

    Args:
        checkpoint: on this machine (with weights or without), or a repository with a file in models/.
        role: `target` or `drafter`.
        root: the checkout.
        overlay: name of an overlay whose changes the config gets.
        cache: the Hugging Face cache, instead of the one the environment names.

    Raises:
        SpecdeckError: neither a config.json nor published facts are at hand.
    """
    located = locate(checkpoint, root, cache=cache)
    here = located is not None and (located.folder / "config.json").is_file()
    if here and located is not None:
        config = read_object(located.folder / "config.json")
        files = {p.name: p.resolve() for p in located.folder.iterdir() if _kept(p)}
    else:
        config, files = _published(checkpoint, role, root), {}
    if overlay is not None:
        config, _ = apply(load_overlay(overlay, root), config, f"config of {checkpoint.where}")
    key = hashlib.sha256(
        json.dumps([checkpoint.where, config, sorted(map(str, files.values()))], sort_keys=True).encode()
    ).hexdigest()[:12]
    # "dflash" in a path makes vLLM guess the method, so no name of a repository enters it.
    folder = root / ".cache" / "dummy" / f"{role}-{key}"
    if folder.is_dir() and all(path.exists() for path in folder.iterdir()):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, path in files.items():
            (fresh / name).symlink_to(path)
        _write(fresh / "config.json", config)
        if "tokenizer.json" not in files and role == "target":
            _write_tokenizer(fresh, config, checkpoint)
        fresh.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return folder


def _kept(path: Path) -> bool:
    return path.is_file() and path.name != "config.json" and not path.name.endswith(WEIGHTS)


def _published(checkpoint: Checkpoint, role: str, root: Path) -> dict[str, Any]:
    """The config as far as it was published, with the assumed keys; the text part alone where there are several."""
    known = known_model(checkpoint.where, root) if checkpoint.repo else None
    if known is None or known.dummy is None:
        shown = display(model_file(checkpoint.where, root), root) if checkpoint.repo else str(checkpoint.path)
        raise SpecdeckError(
            f"too little is known of the {role} {checkpoint.where} to serve its shape",
            where=shown,
            fix=f'hf download {checkpoint.where} --include "*.json" (its config and tokenizer, no weights), or add '
            "`dummy` to that file",
        )
    config: dict[str, Any] = dict(known.config)
    text = config.get("text_config")
    architectures = config.get("architectures")
    if isinstance(text, dict):
        name = architectures[0] if isinstance(architectures, list) and architectures else None
        config = {**text, "architectures": [SERVED_AS.get(str(name), name)]}
    config |= known.dummy
    every, layers = config.get("full_attention_interval"), config.get("num_hidden_layers")
    if "layer_types" not in config and isinstance(every, int) and isinstance(layers, int):
        config["layer_types"] = [
            "full_attention" if i % every == 0 else "linear_attention" for i in range(1, layers + 1)
        ]
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict) and isinstance(layers, int):
        config["quantization_config"] = quantization | _each_layer(quantization, layers)
    return config


def _each_layer(quantization: Mapping[str, Any], layers: int) -> dict[str, list[str]]:
    """Names of modules that are not quantised, `*` written out for each layer: vLLM compares whole names."""
    names = quantization.get("modules_to_not_convert")
    if not isinstance(names, list):
        return {}
    written = [str(name).replace(".*.", f".{i}.") for name in names for i in range(layers if ".*." in str(name) else 1)]
    return {"modules_to_not_convert": written}


def _write_tokenizer(folder: Path, config: Mapping[str, Any], checkpoint: Checkpoint) -> None:
    size = config.get("vocab_size")
    if not isinstance(size, int) or not 256 + len(SPECIAL) <= size <= MAX_VOCABULARY:
        raise SpecdeckError(
            f"a tokenizer cannot be made for a vocabulary of {size!r}",
            where=f"config of {checkpoint.where}: vocab_size",
            fix=f'hf download {checkpoint.where} --include "*.json"',
        )
    words = [*SPECIAL, *_byte_letters()]
    vocabulary = {word: i for i, word in enumerate(words)}
    vocabulary |= {f"t{i}_": i for i in range(len(words), size)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    _write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": i, "content": word, **flags} for i, word in enumerate(SPECIAL)],
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "vocab": vocabulary,
                "merges": [],
            },
        },
    )
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


def _byte_letters() -> list[str]:
    """The letters that byte-level BPE writes bytes with: printable Latin-1 as itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return [chr(byte) for byte in printable] + [chr(0x100 + i) for i in range(len(others))]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")
