"""Build the pair from a seed: corpus, tokenizer, target, MTP layer, drafter, export."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from .data import encode
from .drafter import Drafter
from .export import export_pair, round_weights, write_sums
from .fit import Plan, fit_drafter, fit_mtp, fit_target
from .grammar import problems
from .mtp import Mtp
from .shapes import VOCAB, DrafterShape, TargetShape
from .simulate import MTP_DRAFTS
from .target import Target
from .tokenizer import train_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROBLEMS = 150_000
TOKENIZER_PROBLEMS = 12_000
ANCHORS = 6
# The target is trained until little is left to learn; the two that draft for it are stopped early on purpose, where
# they agree with it about as often as published drafters agree with their targets.
TARGET_PLAN = Plan(steps=2500, rate=4e-3)
MTP_PLAN = Plan(steps=150)
DRAFTER_PLAN = Plan(steps=400)


def build(folder: Path, device: torch.device, seed: int, shorten: float, report: Callable[[str], None]) -> None:
    """Train all parts and write folder/target, folder/drafter and folder/SHA256SUMS.

    `shorten` scales the number of training steps, for trial runs.

    Raises:
        LayoutError: the result is not what the engine loads; nothing is written then.
    """
    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    examples = problems("train", seed, PROBLEMS)
    tokenizer = train_tokenizer(examples[:TOKENIZER_PROBLEMS], VOCAB)
    corpus = encode(tokenizer, examples).to(device)
    report(f"{len(examples)} problems, {int(corpus.totals.sum()):,} tokens, on {device}")

    def plan(full: Plan) -> Plan:
        return replace(full, steps=max(1, round(full.steps * shorten)))

    shape = TargetShape()
    target = Target(shape).to(device)
    fit_target(target, corpus, plan(TARGET_PLAN), order, report)
    round_weights(target)
    mtp = Mtp(shape).to(device)
    mtp.start_from(target)
    fit_mtp(mtp, target, corpus, plan(MTP_PLAN), MTP_DRAFTS, order, report)
    round_weights(mtp)
    drafter = Drafter(DrafterShape(), shape).to(device)
    fit_drafter(drafter, target, corpus, plan(DRAFTER_PLAN), ANCHORS, order, report)
    round_weights(drafter)
    export_pair(folder, target, mtp, drafter, tokenizer)
    write_sums(folder)
    report(f"written to {folder}")
