"""The three training loops: the target on right replies, then MTP layer and drafter on the frozen target's choices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code uses
from torch import Tensor, nn

from .data import Corpus, reply_mask

if TYPE_CHECKING:
    from .drafter import Drafter
    from .mtp import Mtp
    from .target import Target

Batch = tuple[Tensor, Tensor, Tensor]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """One loop: steps of `batch` problems, peak learning rate, linear warm-up, cosine decay to a twentieth."""

    steps: int
    batch: int = 64
    rate: float = 3e-3
    warmup: int = 100

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at `step`."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


def _run(
    name: str,
    module: nn.Module,
    plan: Plan,
    batches: Iterable[Batch],
    loss_of: Callable[[Batch], Tensor],
    report: Report,
) -> None:
    optimizer = torch.optim.AdamW(module.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.05)
    device = next(module.parameters()).device
    module.train()
    started, seen = time.monotonic(), torch.zeros((), device=device)
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * plan.factor(step)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = loss_of(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen = 0.95 * seen + 0.05 * loss.detach() if step else loss.detach()
        if (step + 1) % 200 == 0 or step + 1 == plan.steps:
            pace = (time.monotonic() - started) / (step + 1)
            report(f"{name}: step {step + 1}/{plan.steps}, loss {seen.item():.4f}, {pace * 1000:.0f} ms a step")
    module.eval()


def fit_target(target: Target, corpus: Corpus, plan: Plan, generator: torch.Generator, report: Report) -> None:
    """Next-token loss on replies, and a load-balancing term for the experts."""

    def loss_of(batch: Batch) -> Tensor:
        tokens, prompts, totals = batch
        hidden, _ = target(tokens)
        wanted = reply_mask(tokens, prompts, totals)
        logits = target.lm_head(hidden[wanted]).float()
        return F.cross_entropy(logits, tokens.roll(-1, dims=1)[wanted]) + 0.01 * target.balance()

    _run("target", target, plan, corpus.batches(plan.batch, plan.steps, generator), loss_of, report)


@torch.no_grad()
def _observe(target: Target, tokens: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """Hidden states, layer outputs and greedy choices (for the position after each) of the frozen target."""
    hidden, outputs = target(tokens)
    return hidden, outputs, target.lm_head(hidden).argmax(-1)


def _frozen(*modules: nn.Module) -> None:
    for module in modules:
        module.eval().requires_grad_(requires_grad=False)


def fit_mtp(
    mtp: Mtp, target: Target, corpus: Corpus, plan: Plan, steps: int, generator: torch.Generator, report: Report
) -> None:
    """Loss of `steps` chained drafts from every position against the target's own greedy choices."""
    _frozen(target)

    def loss_of(batch: Batch) -> Tensor:
        tokens, prompts, totals = batch
        hidden, _, choices = _observe(target, tokens)
        replies = reply_mask(tokens, prompts, totals)
        total = torch.zeros((), device=tokens.device)
        for step, drafted in enumerate(mtp(target, tokens, hidden, steps)):
            labels = choices[:, step + 1 :]
            length = labels.shape[1]
            wanted = replies[:, step + 1 :] & replies[:, :length]
            logits = target.lm_head(drafted[:, :length][wanted]).float()
            total = total + 0.8**step * F.cross_entropy(logits, labels[wanted])
        return total

    _run("mtp", mtp, plan, corpus.batches(plan.batch, plan.steps, generator), loss_of, report)


def _anchors(prompts: Tensor, totals: Tensor, count: int) -> Tensor:
    """`count` random anchor positions [B, count] inside each reply."""
    share = torch.rand(prompts.shape[0], count, device=prompts.device)
    return prompts[:, None] + (share * (totals - 1 - prompts)[:, None]).long()


def fit_drafter(
    drafter: Drafter,
    target: Target,
    corpus: Corpus,
    plan: Plan,
    anchors: int,
    generator: torch.Generator,
    report: Report,
) -> None:
    """Loss of blocks at random anchors: of the head alone, and with the selector's edges from the right predecessor."""
    _frozen(target)
    n = drafter.s.drafts

    def loss_of(batch: Batch) -> Tensor:
        tokens, prompts, totals = batch
        _, outputs, choices = _observe(target, tokens)
        starts = _anchors(prompts, totals, anchors)
        hidden = drafter(target, outputs, tokens, starts)
        places = starts[..., None] + torch.arange(n, device=tokens.device)
        wanted = places < (totals - 1)[:, None, None]
        places = places.clamp(max=tokens.shape[1] - 1)
        labels = choices.gather(1, places.flatten(1)).view_as(places)
        previous = tokens.gather(1, places.flatten(1)).view_as(places)
        hidden, labels, previous = hidden[wanted], labels[wanted], previous[wanted]
        weight = (0.9 ** torch.arange(n, device=tokens.device)).expand_as(wanted)[wanted]
        unary = target.lm_head(hidden).float()
        chained = unary + drafter.candidate_selector.edges(previous, hidden).float()
        losses = [F.cross_entropy(logits, labels, reduction="none") for logits in (unary, chained)]
        return ((0.5 * losses[0] + losses[1]) * weight).sum() / weight.sum()

    _run("drafter", drafter, plan, corpus.batches(plan.batch, plan.steps, generator), loss_of, report)
