"""The proofs of the Flash-Next patches fail for what would go wrong in silence: a capture half a layer early."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from specdeck.errors import SpecdeckError
from specdeck.image.apply import apply_patches, prove
from specdeck.image.series import load_series
from specdeck.image.tree import Folder, open_tree, version_of

ROOT = Path(__file__).parents[3]
MODEL = "vllm/models/qwen4_exp/nvidia/model.py"
RING = "vllm/models/qwen4_exp/common/qsa_cache.py"
CONFIG = "vllm/model_executor/models/config.py"

MISTAKES = {
    "capture before the layer's last combine": (
        "qwen4exp-aux-hidden-states",
        MODEL,
        "if layer is not None and block_output is not None:",
        "if False:",
    ),
    "capture of the layer before": (
        "qwen4exp-aux-hidden-states",
        MODEL,
        "if layer_idx + 1 in self.aux_hidden_state_layers:",
        "if layer_idx in self.aux_hidden_state_layers:",
    ),
    "sum over the streams": ("qwen4exp-aux-hidden-states", MODEL, ".mean(dim=-2)", ".sum(dim=-2)"),
    "features of one rank": (
        "qwen4exp-aux-hidden-states",
        MODEL,
        "feature = sp_all_gather(feature)[:num_tokens]",
        "pass",
    ),
    "features with padding": (
        "qwen4exp-aux-hidden-states",
        MODEL,
        "feature = sp_all_gather(feature)[:num_tokens]",
        "feature = sp_all_gather(feature)",
    ),
    "two results for a target without a drafter": (
        "qwen4exp-aux-hidden-states",
        MODEL,
        "        if aux_hidden_states:\n",
        "        if True:\n",
    ),
    "no interface": ("qwen4exp-aux-hidden-states", MODEL, "(nn.Module, EagleModelMixin)", "(nn.Module)"),
    "a ring that is too narrow": ("qwen4exp-qsa-ring", RING, "in range(needed,", "in range(self.compress_ratio,"),
    "a ring that cuts the block": ("qwen4exp-qsa-ring", RING, "if block_size % capacity == 0", "if block_size"),
    "every method": ("qwen4exp-dflash-method", CONFIG, "spec_config.method not in supported", "False"),
    "a silent refusal": ("qwen4exp-dflash-method", CONFIG, "; got {spec_config.method}", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_proof_fails_for(mistake: str, tmp_path: Path) -> None:
    name, path, right, wrong = MISTAKES[mistake]
    try:
        engine = open_tree(ROOT / ".venv-engine")
    except SpecdeckError:
        pytest.skip("the CPU engine is not installed: .venv-engine")
    raw = engine.read(path)
    assert raw is not None
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(raw)
    series = load_series(ROOT / "engines" / "patches")
    apply_patches(series, [name], Folder(tmp_path), version_of(engine) or Version("0"))
    text = (tmp_path / path).read_text("utf-8")
    assert right in text
    (tmp_path / path).write_text(text.replace(right, wrong), "utf-8")
    with pytest.raises(SpecdeckError, match="its proof says so"):
        prove(series, series.entry(name), tmp_path)
