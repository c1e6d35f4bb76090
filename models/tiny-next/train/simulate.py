"""Greedy speculation without an engine: what MTP layer and drafter would have accepted, draft by draft.

Greedy verification always yields the target's own text, so that text is made once; drafts from all its positions
follow in one pass, and walking from step to step picks out those that a server would have made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .grammar import CATEGORIES, Problem, check
from .shapes import END_ID, PAD_ID
from .tokenizer import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from .drafter import Drafter
    from .mtp import Mtp
    from .target import Target

MTP_DRAFTS = 3
SLACK = 8


@dataclass(frozen=True, slots=True)
class Greedy:
    """tokens [B, T] (prompt, then greedy tokens past the end of the reply), prompt lengths, top-two margins [B, T].

    Greedy tokens and margins are good up to and with `SLACK` tokens after <|im_end|>, at most `room` tokens in all.
    """

    tokens: Tensor
    prompts: Tensor
    margins: Tensor


@torch.no_grad()
def generate(target: Target, tokenizer: Tokenizer, problems: Sequence[Problem], room: int) -> Greedy:
    """Greedy continuations of all questions, up to `room` tokens each.

    The problems' own replies are the first guess; every pass keeps what the target confirms and takes its choices
    for the rest, until nothing changes. The result is the same as token by token, in far fewer passes.
    """
    device = next(target.parameters()).device
    asked = [tokenizer.encode(render(p.question)).ids for p in problems]
    prompts = torch.tensor([len(ids) for ids in asked], device=device)
    tokens = torch.full((len(asked), int(prompts.max()) + room), PAD_ID, device=device)
    for row, (ids, problem) in enumerate(zip(asked, problems, strict=True)):
        guess = [*ids, *tokenizer.encode(problem.reply).ids, END_ID][: len(ids) + room]
        tokens[row, : len(guess)] = torch.tensor(guess, device=device)
    margins = torch.zeros(tokens.shape, device=device)
    for rows in torch.arange(len(asked), device=device).split(64):
        _settle(target, tokens, margins, prompts, rows, room)
    return Greedy(tokens, prompts, margins)


def _settle(target: Target, tokens: Tensor, margins: Tensor, prompts: Tensor, rows: Tensor, room: int) -> None:
    for _ in range(room + 1):
        top, best = target.lm_head(target(tokens[rows])[0]).float().topk(2)
        # margins[p] and choices[p] belong to the token at p, which the position before it predicts.
        margins[rows, 1:] = (top[..., 0] - top[..., 1])[:, :-1]
        choices = best[..., 0].roll(1, dims=1)
        open_rows = []
        for i, row in enumerate(rows.tolist()):
            start = int(prompts[row])
            wrong = (tokens[row, start : start + room] != choices[i, start : start + room]).nonzero()
            settled = int(wrong[0]) if wrong.numel() else room
            reply = tokens[row, start : start + settled].tolist()
            needed = min(room, reply.index(END_ID) + 1 + SLACK) if END_ID in reply else room
            if settled < needed:
                tokens[row, start + settled : start + room] = choices[i, start + settled : start + room]
                open_rows.append(row)
        if not open_rows:
            return
        rows = torch.tensor(open_rows, device=tokens.device)


def reply_length(reply: Sequence[int], max_tokens: int) -> int:
    """Tokens that a server returns of a greedy continuation: up to and with <|im_end|>, at most `max_tokens`."""
    end = reply.index(END_ID) + 1 if END_ID in reply else len(reply)
    return min(end, max_tokens)


def texts(greedy: Greedy, tokenizer: Tokenizer, max_tokens: int) -> list[str]:
    """The replies as text."""
    found = []
    for row, prompt in zip(greedy.tokens.tolist(), greedy.prompts.tolist(), strict=True):
        reply = row[prompt:]
        found.append(tokenizer.decode(reply[: reply_length(reply, max_tokens)], skip_special_tokens=True))
    return found


@torch.no_grad()
def mtp_drafts(target: Target, mtp: Mtp, greedy: Greedy) -> Tensor:
    """Drafts [B, T, 3]; entry p holds the tokens drafted for p + 1 … once the token at p is known."""
    hidden, _ = target(greedy.tokens)
    drafted = mtp(target, greedy.tokens, hidden, MTP_DRAFTS, own_drafts=True)
    steps = [target.lm_head(x).argmax(-1) for x in drafted]
    return torch.stack(steps, -1).roll(1, dims=1)


@torch.no_grad()
def block_drafts(target: Target, drafter: Drafter, greedy: Greedy) -> Tensor:
    """Drafts [B, T, n] of the drafter with every position as the anchor."""
    _, outputs = target(greedy.tokens)
    batch, time = greedy.tokens.shape
    parts = []
    for anchors in torch.arange(time, device=greedy.tokens.device).split(16):
        hidden = drafter(target, outputs, greedy.tokens, anchors.expand(batch, -1))
        parts.append(drafter.draft(hidden, target.lm_head(hidden).float(), greedy.tokens[:, anchors]))
    return torch.cat(parts, 1)


def walk(greedy: Greedy, drafts: Tensor, max_tokens: int) -> list[list[int]]:
    """Accepted tokens of every draft step of every request, as a server counts them.

    A step that reaches the end of the reply still counts all that the target would have confirmed.
    """
    counts = []
    n = drafts.shape[-1]
    for row, prompt, made in zip(greedy.tokens.tolist(), greedy.prompts.tolist(), drafts.tolist(), strict=True):
        length = reply_length(row[prompt:], max_tokens)
        accepted: list[int] = []
        done = 1
        while done < length:
            at = prompt + done - 1
            truth = row[at + 1 : at + 1 + n]
            hits = next((i for i, (a, b) in enumerate(zip(made[at], truth, strict=False)) if a != b), len(truth))
            accepted.append(hits)
            done += hits + 1
        counts.append(accepted)
    return counts


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of one arm over some requests."""

    length: float
    by_position: list[float]
    by_category: dict[str, float]


def summarize(counts: list[list[int]], categories: Sequence[str], n: int) -> Acceptance:
    """Acceptance length (1 + accepted / drafts), rates by position, and lengths by category."""
    steps = [hits for request in counts for hits in request]
    by_category = {}
    for category in CATEGORIES:
        own = [hits for request, c in zip(counts, categories, strict=True) if c == category for hits in request]
        if own:
            by_category[category] = 1 + sum(own) / len(own)
    rates = [sum(hits > i for hits in steps) / len(steps) for i in range(n)]
    return Acceptance(1 + sum(steps) / len(steps), rates, by_category)


@dataclass(frozen=True, slots=True)
class Quality:
    """Right answers by category, and how close greedy decoding comes to ties."""

    right: dict[str, float]
    share: float
    close_calls: float
    smallest_margin: float


def quality(greedy: Greedy, problems: Sequence[Problem], replies: Sequence[str], max_tokens: int) -> Quality:
    """Share of right replies, and of requests with a top-two margin under 0.1 (which arithmetic may flip)."""
    right = {c: [check(p, t) for p, t in zip(problems, replies, strict=True) if p.category == c] for c in CATEGORIES}
    lows = []
    for row, prompt, margins in zip(
        greedy.tokens.tolist(), greedy.prompts.tolist(), greedy.margins.tolist(), strict=True
    ):
        lows.append(min(margins[prompt : prompt + reply_length(row[prompt:], max_tokens)]))
    flat = [hit for hits in right.values() for hit in hits]
    return Quality(
        {c: sum(hits) / len(hits) for c, hits in right.items() if hits},
        sum(flat) / len(flat),
        sum(low < 0.1 for low in lows) / len(lows),
        min(lows),
    )
