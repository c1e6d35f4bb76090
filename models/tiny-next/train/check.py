"""Self-check of an exported pair: layout, agreement with transformers, answers and simulated acceptance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from .data import encode
from .export import load_pair
from .grammar import Problem, problems
from .layout import require_layout
from .simulate import (
    MTP_DRAFTS,
    Acceptance,
    Greedy,
    Quality,
    block_drafts,
    generate,
    mtp_drafts,
    quality,
    summarize,
    texts,
    walk,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

    from .drafter import Drafter
    from .mtp import Mtp
    from .target import Target

ROOM = 84
DRAFTED = 90


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a safetensors file; ValueError where it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from error


def check_layout(folder: Path) -> None:
    """Raise LayoutError unless both checkpoints in `folder` are what the engine loads."""
    configs = [
        json.loads((folder / part / "config.json").read_text(encoding="utf-8")) for part in ("target", "drafter")
    ]
    tensors = [shapes(folder / part / "model.safetensors") for part in ("target", "drafter")]
    require_layout(configs[0], tensors[0], configs[1], tensors[1])


def transformers_logits(folder: Path, tokens: Tensor) -> Tensor:
    """Logits of transformers' own Qwen3NextForCausalLM for the exported target, in float32."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - seconds to import, needed here only

    model = AutoModelForCausalLM.from_pretrained(folder / "target", dtype=torch.float32)
    with torch.no_grad():
        logits: Tensor = model(tokens).logits
    return logits


def check_target(folder: Path, target: Target, corpus_tokens: Tensor) -> float:
    """Largest difference between our logits and transformers'.

    Raises:
        ValueError: it is not small, so the two do not compute the same function.
    """
    with torch.no_grad():
        ours = target.lm_head(target(corpus_tokens)[0])
    worst = (ours - transformers_logits(folder, corpus_tokens)).abs().max().item()
    if worst > 1e-2:
        raise ValueError(f"{folder / 'target'} gives other logits in transformers than in training: off by {worst:.3g}")
    return worst


def measure(
    target: Target, mtp: Mtp, drafter: Drafter, tokenizer: Tokenizer, held_out: list[Problem], max_tokens: int
) -> tuple[Quality, Acceptance, Acceptance]:
    """Quality over all whole replies, acceptance of MTP and drafter over the first `max_tokens` tokens of DRAFTED."""
    greedy = generate(target, tokenizer, held_out, ROOM)
    found = quality(greedy, held_out, texts(greedy, tokenizer, ROOM), ROOM)
    categories = [p.category for p in held_out[:DRAFTED]]
    greedy = Greedy(greedy.tokens[:DRAFTED], greedy.prompts[:DRAFTED], greedy.margins[:DRAFTED])
    chained = summarize(walk(greedy, mtp_drafts(target, mtp, greedy), max_tokens), categories, MTP_DRAFTS)
    blocks = summarize(walk(greedy, block_drafts(target, drafter, greedy), max_tokens), categories, drafter.s.drafts)
    return found, chained, blocks


def describe(name: str, acceptance: Acceptance) -> str:
    """One line: acceptance length, by category, by position."""
    categories = ", ".join(f"{k} {v:.2f}" for k, v in acceptance.by_category.items())
    positions = " ".join(f"{rate:.3f}" for rate in acceptance.by_position)
    return f"{name}: acceptance length {acceptance.length:.3f} ({categories}); by position {positions}"


def check_pair(folder: Path, *, seed: int, count: int, max_tokens: int) -> list[str]:
    """All checks on the pair in `folder`; the lines to print.

    Raises:
        LayoutError, ValueError: a check failed.
    """
    check_layout(folder)
    target, mtp, drafter, tokenizer = load_pair(folder)
    held_out = problems("held-out", seed, count)
    worst = check_target(folder, target, encode(tokenizer, held_out[:8]).tokens)
    found, chained, blocks = measure(target, mtp, drafter, tokenizer, held_out, max_tokens)
    right = ", ".join(f"{k} {v:.1%}" for k, v in found.right.items())
    return [
        "layout: as the engine loads it",
        f"transformers: same logits (largest difference {worst:.1e})",
        f"held-out answers right: {found.share:.1%} of {count} ({right})",
        f"smallest top-two margin {found.smallest_margin:.4f}; under 0.1 in {found.close_calls:.1%} of replies",
        describe(f"MTP n={MTP_DRAFTS}", chained),
        describe(f"DFlash2 n={drafter.s.drafts}", blocks),
    ]
