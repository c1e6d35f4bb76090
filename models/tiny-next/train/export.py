"""Write and read the two checkpoints. Nothing is written unless both have the layout that the engine loads."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from .drafter import Drafter
from .layout import require_layout
from .mtp import Mtp
from .shapes import END_ID, PAD_ID, DrafterShape, TargetShape
from .target import Target
from .tokenizer import save_tokenizer

if TYPE_CHECKING:
    from pathlib import Path


def round_weights(module: nn.Module) -> None:
    """Round every weight to bfloat16 in place: what is trained against the target must see what will be served."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16().float())


def _tensors(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    return {prefix + k: v.detach().cpu().bfloat16().contiguous() for k, v in module.state_dict().items()}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def export_pair(folder: Path, target: Target, mtp: Mtp, drafter: Drafter, tokenizer: Tokenizer) -> None:
    """Write folder/target and folder/drafter.

    Raises:
        LayoutError: tensors or configurations are not what the engine loads; nothing has been written then.
    """
    target_config, drafter_config = target.s.config(), drafter.s.config(target.s)
    target_tensors = _tensors(target) | _tensors(mtp, "mtp.")
    drafter_tensors = _tensors(drafter)
    require_layout(
        target_config,
        {k: tuple(v.shape) for k, v in target_tensors.items()},
        drafter_config,
        {k: tuple(v.shape) for k, v in drafter_tensors.items()},
    )
    save_tokenizer(tokenizer, folder / "target")
    (folder / "drafter").mkdir(parents=True, exist_ok=True)
    _write_json(folder / "target" / "config.json", target_config)
    generation = {"eos_token_id": END_ID, "pad_token_id": PAD_ID, "do_sample": False}
    _write_json(folder / "target" / "generation_config.json", generation)
    _write_json(folder / "drafter" / "config.json", drafter_config)
    for part, tensors in (("target", target_tensors), ("drafter", drafter_tensors)):
        path = folder / part / "model.safetensors"
        save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)


def load_pair(folder: Path) -> tuple[Target, Mtp, Drafter, Tokenizer]:
    """Read back what `export_pair` wrote, as float32 modules in evaluation mode (shapes are the built-in ones)."""
    tensors = {k: v.float() for k, v in load_file(folder / "target" / "model.safetensors").items()}
    shape = TargetShape()
    target, mtp, drafter = Target(shape), Mtp(shape), Drafter(DrafterShape(), shape)
    target.load_state_dict({k: v for k, v in tensors.items() if not k.startswith("mtp.")})
    mtp.load_state_dict({k.removeprefix("mtp."): v for k, v in tensors.items() if k.startswith("mtp.")})
    drafter.load_state_dict({k: v.float() for k, v in load_file(folder / "drafter" / "model.safetensors").items()})
    tokenizer = Tokenizer.from_file(str(folder / "target" / "tokenizer.json"))
    return target.eval(), mtp.eval(), drafter.eval(), tokenizer


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS over both checkpoints, in the format that `sha256sum --check` reads."""
    files = sorted(p for part in ("target", "drafter") for p in (folder / part).iterdir() if p.is_file())
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}" for p in files]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
