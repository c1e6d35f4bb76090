"""Problems as tensors: prompt and reply padded on the right, and a mask over what the reply must predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .shapes import END_ID, PAD_ID
from .tokenizer import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenizers import Tokenizer

    from .grammar import Problem

LENGTH = 112


@dataclass(frozen=True, slots=True)
class Corpus:
    """tokens [N, LENGTH]; prompt and total lengths [N] in tokens."""

    tokens: Tensor
    prompts: Tensor
    totals: Tensor

    def to(self, device: torch.device) -> Corpus:
        """The same corpus on another device."""
        return Corpus(self.tokens.to(device), self.prompts.to(device), self.totals.to(device))

    def batches(self, size: int, steps: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """`steps` random batches (tokens, prompt lengths, total lengths), cut to their longest row."""
        count = self.tokens.shape[0]
        order = torch.empty(0, dtype=torch.long)
        for _ in range(steps):
            if order.numel() < size:
                order = torch.randperm(count, generator=generator)
            chosen, order = order[:size].to(self.tokens.device), order[size:]
            totals = self.totals[chosen]
            yield self.tokens[chosen, : int(totals.max())], self.prompts[chosen], totals


def encode(tokenizer: Tokenizer, problems: list[Problem]) -> Corpus:
    """Tokenize problems with their replies; each ends with <|im_end|> and a newline.

    Raises:
        ValueError: a problem is longer than LENGTH tokens.
    """
    prompts = tokenizer.encode_batch([render(p.question) for p in problems])
    replies = tokenizer.encode_batch([p.reply for p in problems])
    newline = tokenizer.encode("\n").ids
    tokens = np.full((len(problems), LENGTH), PAD_ID, dtype=np.int64)
    lengths = np.zeros((2, len(problems)), dtype=np.int64)
    for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        ids = [*prompt.ids, *reply.ids, END_ID, *newline]
        if len(ids) > LENGTH:
            raise ValueError(f"{problems[row].question!r} takes {len(ids)} tokens, more than {LENGTH}")
        tokens[row, : len(ids)] = ids
        lengths[:, row] = len(prompt.ids), len(ids)
    return Corpus(torch.from_numpy(tokens), torch.from_numpy(lengths[0]), torch.from_numpy(lengths[1]))


def reply_mask(tokens: Tensor, prompts: Tensor, totals: Tensor) -> Tensor:
    """Positions [B, T] whose next token belongs to the reply (its end and the newline included)."""
    times = torch.arange(tokens.shape[1], device=tokens.device)
    return (times >= prompts[:, None] - 1) & (times < totals[:, None] - 1)
