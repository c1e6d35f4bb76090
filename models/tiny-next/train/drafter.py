"""The DFlash2 drafter: a block of one anchor and n masks, answered in one pass over features of the target.

The context enters only as keys and values: fc over the concatenated outputs of the tapped target layers, one
norm, then every layer's own k/v projections with k_norm and rotary positions. Within the block attention has no
direction. The grouped convolution mixes each position with its predecessor inside the block, with kernels
computed from the input.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code uses
from torch import Tensor, nn

from .shapes import MASK_ID, DrafterShape, TargetShape
from .target import Mlp, Target, init_weights, rms, rotary


class Norm(nn.Module):
    """RMS norm with a plain weight."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last axis."""
        return rms(x) * self.weight


class GroupedConv(nn.Module):
    """Convolution over the block before (side 0) and after (side 1) a sublayer, zero across its boundary."""

    def __init__(self, s: DrafterShape) -> None:
        super().__init__()
        self.s = s
        self.base_kernel = nn.Parameter(torch.zeros(2, s.conv_taps, s.hidden))
        self.base_kernel.data[:, 0] = 1
        self.kernel_projection = nn.Linear(s.hidden, 2 * s.conv_taps * s.hidden // s.conv_group, bias=False)

    def coefficients(self, x: Tensor) -> Tensor:
        """Per position kernels [..., block, 2, taps, groups] from x [..., block, hidden]."""
        return self.kernel_projection(x).unflatten(-1, (2, self.s.conv_taps, -1))

    def forward(self, x: Tensor, coefficients: Tensor, side: int) -> Tensor:
        """Convolve blocks x [..., block, hidden] with the kernels of one side."""
        kernel = self.base_kernel[side] + coefficients[..., side, :, :].repeat_interleave(self.s.conv_group, -1)
        out = kernel[..., 0, :] * x
        for tap in range(1, self.s.conv_taps):
            out = out + kernel[..., tap, :] * F.pad(x, (0, 0, tap, 0))[..., : x.shape[-2], :]
        return out


class BlockAttention(nn.Module):
    """Attention of a block's queries to the context before it and to the whole block."""

    def __init__(self, s: DrafterShape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(s.hidden, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = Norm(s.head_dim)
        self.k_norm = Norm(s.head_dim)

    def _keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        s = self.s
        k = rotary(self.k_norm(self.k_proj(x).unflatten(-1, (s.kv_heads, -1))), positions, s.head_dim, s.rope_theta)
        v = self.v_proj(x).unflatten(-1, (s.kv_heads, -1)).to(k.dtype)
        k, v = (t.transpose(-2, -3).repeat_interleave(s.heads // s.kv_heads, dim=-3) for t in (k, v))
        return k, v

    def forward(self, x: Tensor, context: Tensor, anchors: Tensor) -> Tensor:
        """X [B, A, block, H] at anchors [B, A], context [B, T, H]; position t of the context is seen if t < anchor."""
        s = self.s
        batch, count, block, _ = x.shape
        positions = anchors[..., None] + torch.arange(block, device=x.device)
        times = torch.arange(context.shape[1], device=x.device)
        q = rotary(self.q_norm(self.q_proj(x).unflatten(-1, (s.heads, -1))), positions, s.head_dim, s.rope_theta)
        q = q.transpose(-2, -3)
        k, v = self._keys_values(x, positions)
        past_k, past_v = self._keys_values(context, times)
        seen = (times < anchors[..., None])[:, :, None, None, :]
        seen = seen & (positions[:, :, None, :, None] - times < s.window)
        scale = s.head_dim**-0.5
        past = torch.einsum("bahqd,bhtd->bahqt", q, past_k).float().mul(scale).masked_fill(~seen, -torch.inf)
        weights = torch.cat([past, (q @ k.transpose(-1, -2)).float() * scale], -1).softmax(-1).to(v.dtype)
        out = torch.einsum("bahqt,bhtd->bahqd", weights[..., : times.numel()], past_v)
        out = out + weights[..., times.numel() :] @ v
        return self.o_proj(out.transpose(-2, -3).reshape(batch, count, block, -1))


class DrafterLayer(nn.Module):
    """Attention and feed-forward, each between the two sides of its convolution."""

    def __init__(self, s: DrafterShape) -> None:
        super().__init__()
        self.self_attn = BlockAttention(s)
        self.mlp = Mlp(s.hidden, s.mlp_dim)
        self.attention_conv = GroupedConv(s)
        self.mlp_conv = GroupedConv(s)
        self.input_layernorm = Norm(s.hidden)
        self.post_attention_layernorm = Norm(s.hidden)

    def forward(self, x: Tensor, context: Tensor, anchors: Tensor) -> Tensor:
        """One layer over blocks x [B, A, block, hidden]; see BlockAttention for the rest."""
        normed = self.input_layernorm(x)
        kernels = self.attention_conv.coefficients(normed)
        mixed = self.self_attn(self.attention_conv(normed, kernels, 0), context, anchors)
        x = x + self.attention_conv(mixed, kernels, 1)
        normed = self.post_attention_layernorm(x)
        kernels = self.mlp_conv.coefficients(normed)
        return x + self.mlp_conv(self.mlp(self.mlp_conv(normed, kernels, 0)), kernels, 1)


class Selector(nn.Module):
    """Scores of going from one candidate to the next: sum over rank of predecessor * hidden * successor."""

    def __init__(self, s: DrafterShape, vocab: int) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.randn(vocab, s.selector_rank))
        self.successor_codebook = nn.Parameter(torch.randn(vocab, s.selector_rank) * 0.02)
        self.hidden_projection = nn.Linear(s.hidden, s.selector_rank, bias=False)

    def edges(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """Scores [..., vocab] of every successor of the tokens `previous` [...] at hidden [..., H]."""
        return (self.predecessor_codebook[previous] * self.hidden_projection(hidden)) @ self.successor_codebook.T


class Drafter(nn.Module):
    """The drafter; embedding and head are the target's."""

    def __init__(self, s: DrafterShape, target: TargetShape) -> None:
        super().__init__()
        self.s = s
        self.fc = nn.Linear(target.hidden * len(s.target_layers), s.hidden, bias=False)
        self.hidden_norm = Norm(s.hidden)
        self.layers = nn.ModuleList(DrafterLayer(s) for _ in range(s.layers))
        self.norm = Norm(s.hidden)
        self.candidate_selector = Selector(s, target.vocab)
        init_weights(self)
        for layer in self.layers:
            for conv in (layer.attention_conv, layer.mlp_conv):
                conv.base_kernel.data.zero_()
                conv.base_kernel.data[:, 0] = 1
                conv.kernel_projection.weight.data.mul_(0.1)
        self.candidate_selector.successor_codebook.data.mul_(0.05)

    def forward(self, target: Target, outputs: list[Tensor], tokens: Tensor, anchors: Tensor) -> Tensor:
        """Normed hidden states [B, A, n, H] of the n masks after each anchor position of tokens [B, T].

        `outputs` are the target's layer outputs; only those before an anchor are seen from it.
        """
        features = torch.cat([outputs[i] for i in self.s.target_layers], -1)
        context = self.hidden_norm(self.fc(features))
        ids = torch.full((*anchors.shape, self.s.block), MASK_ID, device=tokens.device)
        ids[..., 0] = tokens.gather(1, anchors)
        x = target.model.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, context, anchors)
        return self.norm(x)[..., 1:, :]

    def draft(self, hidden: Tensor, unary: Tensor, anchor_tokens: Tensor) -> Tensor:
        """The walk over the candidates: greedy tokens [..., n] from hidden [..., n, H] and head logits [..., n, V]."""
        top, ids = unary.topk(self.s.selector_top_k, dim=-1)
        previous, chosen = anchor_tokens, []
        for step in range(self.s.drafts):
            edges = self.candidate_selector.edges(previous, hidden[..., step, :])
            scores = top[..., step, :] + edges.gather(-1, ids[..., step, :])
            previous = ids[..., step, :].gather(-1, scores.argmax(-1, keepdim=True)).squeeze(-1)
            chosen.append(previous)
        return torch.stack(chosen, -1)
