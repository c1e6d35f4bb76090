"""A small checkout on disk, for tests that write recipes and plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RECIPE = """\
name: r
title: a recipe
target: {path: models/target}
drafter: {path: models/drafter}
engine: {vllm: "==0.32.0", runtime: local, environment: cpu}
hardware: {device: cpu, class: x86-64}
serve:
  max_model_len: 2048
arms:
  none: {}
  mtp: {method: mtp, num_speculative_tokens: 3}
  dflash2: {method: dflash, num_speculative_tokens: 7}
"""
PLAN = """\
name: p
title: a plan
arms: [none, mtp]
concurrency: [1, 4]
max_tokens: 8
"""


class Checkout:
    """Folders as specdeck expects them, with the recipe `r`, the plan `p` and both checkpoints."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipe("r", RECIPE)
        self.plan("p", PLAN)
        for role in ("target", "drafter"):
            folder = root / "models" / role
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(
                '{"architectures": ["DFlash2DraftModel"], "dflash_config": {"target_layer_ids": [0, 2]}}'
            )
            (folder / "model.safetensors").write_bytes(b"weights of sixteen bytes or more")

    def recipe(self, name: str, text: str) -> Path:
        return self._write(self.root / "recipes" / f"{name}.yml", text)

    def plan(self, name: str, text: str) -> Path:
        return self._write(self.root / "bench" / "plans" / f"{name}.yml", text)

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path
