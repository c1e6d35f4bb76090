"""The multi-token-prediction layer: one full-attention decoder layer over cat(norm(embedding), norm(hidden)).

Fed the target's final hidden state at position p and the token at p + 1 it predicts the token at p + 2; its own
normed output stands in for the target's hidden state in the next step, at the next position.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code uses
from torch import Tensor, nn

from .target import CentredNorm, Layer, Target, init_weights

if TYPE_CHECKING:
    from .shapes import TargetShape


class Mtp(nn.Module):
    """The MTP layer; embedding and head are the target's."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * s.hidden, s.hidden, bias=False)
        self.pre_fc_norm_hidden = CentredNorm(s.hidden)
        self.pre_fc_norm_embedding = CentredNorm(s.hidden)
        self.layers = nn.ModuleList([Layer(s, "full_attention")])
        self.norm = CentredNorm(s.hidden)
        init_weights(self)

    def start_from(self, target: Target) -> None:
        """Copy the target's last full-attention layer and final norm: a far better start than noise."""
        self.layers[0].load_state_dict(target.model.layers[-1].state_dict())
        self.norm.load_state_dict(target.model.norm.state_dict())
        with torch.no_grad():
            half = self.fc.weight.shape[0]
            self.fc.weight.mul_(0.3)
            self.fc.weight[:, half:] += torch.eye(half, device=self.fc.weight.device)

    def _step(
        self, embedded: Tensor, hidden: Tensor, positions: Tensor, cache: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """One draft step from every position at once; see `forward` for what may attend to what."""
        layer = self.layers[0]
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], -1))
        attention = layer.self_attn
        q, k, v, gate = attention.project(layer.input_layernorm(x), positions)
        cache = [*cache, (k, v)]
        (first_k, first_v), later = cache[0], cache[1:]
        time, scale = q.shape[2], 1 / math.sqrt(q.shape[-1])
        causal = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
        scores = [(q @ first_k.transpose(-1, -2) * scale).float().masked_fill(~causal, -math.inf)]
        scores += [((q * k).sum(-1, keepdim=True) * scale).float() for k, _ in later]
        weights = torch.cat(scores, -1).softmax(-1).to(v.dtype)
        out = weights[..., :time] @ first_v
        for i, (_, v) in enumerate(later):
            out = out + weights[..., time + i, None] * v
        x = x + attention.finish(out, gate)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x), cache

    def forward(
        self, target: Target, tokens: Tensor, hidden: Tensor, steps: int, *, own_drafts: bool = False
    ) -> list[Tensor]:
        """Hidden states of `steps` drafts from every position p of tokens [B, T], given the target's hidden [B, T, H].

        Draft j (from 0) from position p predicts the token at p + 2 + j. Its first step attends to the first-step
        entries of all positions up to p (what the engine keeps in its cache), later steps also to their own.
        Inputs are the true tokens, or with `own_drafts` the argmax of the step before.
        """
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        given = F.pad(tokens, (0, steps + 1))
        drafted: list[Tensor] = []
        cache: list[tuple[Tensor, Tensor]] = []
        for step in range(steps):
            inputs = given[:, step + 1 : step + 1 + tokens.shape[1]]
            if step and own_drafts:
                inputs = target.lm_head(hidden).argmax(-1)
            hidden, cache = self._step(target.model.embed_tokens(inputs), hidden, positions + step, cache)
            drafted.append(hidden)
        return drafted
