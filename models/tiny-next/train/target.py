"""The target in plain PyTorch, tensor for tensor what transformers and vLLM call Qwen3NextForCausalLM.

Written for training short sequences: no cache, the gated delta rule in its parallel form over the whole
sequence, all experts computed and the unrouted ones weighted with zero. `train/check.py` holds it to
transformers' own implementation.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name all PyTorch code uses
from torch import Tensor, nn

from .shapes import EPS, TargetShape


def rotary(x: Tensor, positions: Tensor, dim: int, theta: float) -> Tensor:
    """Rotate the first `dim` channels of x [..., T, heads, head_dim] by positions [..., T] (half-split layout)."""
    inverse = theta ** (-torch.arange(0, dim, 2, device=x.device, dtype=torch.float32) / dim)
    angle = positions[..., None].float() * inverse
    cos, sin = angle.cos()[..., None, :].to(x.dtype), angle.sin()[..., None, :].to(x.dtype)
    a, b, rest = x[..., : dim // 2], x[..., dim // 2 : dim], x[..., dim:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def rms(x: Tensor) -> Tensor:
    """X over its root mean square along the last axis, in float32, in x's type."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype)


class CentredNorm(nn.Module):
    """RMS norm whose stored weight is the difference from one, as in Qwen3-Next."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Norm the last axis."""
        return rms(x) * (1 + self.weight)


class GatedNorm(nn.Module):
    """RMS norm followed by a SiLU gate; its weight starts at one."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        """Norm the last axis, then gate it."""
        return rms(x) * self.weight * F.silu(gate)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule from a zero state, in parallel over time.

    q, k, v are [B, heads, T, d] (q and k of unit length), log_decay and beta [B, heads, T]. With S the state,
    S_t = decay_t S_{t-1} + beta_t k_t (v_t - decay_t k_t S_{t-1})' and out_t = q_t S_t / sqrt(d); the corrections
    solve one unit-triangular system (Yang et al., "Gated Delta Networks").
    """
    time = q.shape[2]
    total = log_decay.cumsum(-1)
    causal = torch.ones(time, time, dtype=torch.bool, device=q.device).tril()
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~causal, -math.inf).exp()
    keys = (k * beta[..., None]) @ k.transpose(-1, -2) * decay
    corrections = torch.linalg.solve_triangular(keys, v * beta[..., None], upper=False, unitriangular=True)
    return (q @ k.transpose(-1, -2) * decay) @ corrections / math.sqrt(q.shape[-1])


class DeltaNet(nn.Module):
    """A gated-delta-net layer."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.s = s
        keys, values = s.gdn_key_heads * s.gdn_head_dim, s.gdn_value_heads * s.gdn_head_dim
        self.in_proj_qkvz = nn.Linear(s.hidden, 2 * keys + 2 * values, bias=False)
        self.in_proj_ba = nn.Linear(s.hidden, 2 * s.gdn_value_heads, bias=False)
        channels = 2 * keys + values
        self.conv1d = nn.Conv1d(channels, channels, s.gdn_conv, groups=channels, bias=False)
        step = torch.exp(torch.rand(s.gdn_value_heads) * math.log(100)) * 1e-3
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.A_log = nn.Parameter(torch.empty(s.gdn_value_heads).uniform_(1, 8).log())
        self.norm = GatedNorm(s.gdn_head_dim)
        self.out_proj = nn.Linear(values, s.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix x [B, T, hidden] over time, from a zero state."""
        s = self.s
        batch, time, _ = x.shape
        group, dim = s.gdn_value_heads // s.gdn_key_heads, s.gdn_head_dim
        q, k, v, z = (
            self.in_proj_qkvz(x).view(batch, time, s.gdn_key_heads, -1).split([dim, dim, group * dim, group * dim], -1)
        )
        b, a = self.in_proj_ba(x).view(batch, time, s.gdn_key_heads, -1).split([group, group], -1)
        mixed = torch.cat([part.reshape(batch, time, -1) for part in (q, k, v)], -1).transpose(1, 2)
        mixed = F.silu(self.conv1d(F.pad(mixed, (s.gdn_conv - 1, 0)))).transpose(1, 2)
        keys = s.gdn_key_heads * dim
        q, k, v = (
            part.unflatten(-1, (-1, dim)).transpose(1, 2).float()
            for part in mixed.split([keys, keys, group * keys], -1)
        )
        q, k = ((t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + EPS)).repeat_interleave(group, dim=1) for t in (q, k))
        beta = b.reshape(batch, time, -1).float().sigmoid().transpose(1, 2)
        log_decay = -self.A_log.float().exp() * F.softplus(a.reshape(batch, time, -1).float() + self.dt_bias.float())
        with torch.autocast(x.device.type, enabled=False):
            out = delta_rule(q, k, v, log_decay.transpose(1, 2), beta)
        out = self.norm(out.transpose(1, 2).to(x.dtype), z.reshape(batch, time, -1, dim))
        return self.out_proj(out.flatten(-2))


class Attention(nn.Module):
    """Full attention with per-head norms, partial rotary positions and an output gate."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(s.hidden, 2 * s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.hidden, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)
        self.q_norm = CentredNorm(s.head_dim)
        self.k_norm = CentredNorm(s.head_dim)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys, values [B, heads, T, head_dim] (keys and values repeated per query head) and the gate."""
        s = self.s
        q, gate = self.q_proj(x).unflatten(-1, (s.heads, 2 * s.head_dim)).chunk(2, -1)
        q = rotary(self.q_norm(q), positions, s.rotary_dim, s.rope_theta)
        k = rotary(self.k_norm(self.k_proj(x).unflatten(-1, (s.kv_heads, -1))), positions, s.rotary_dim, s.rope_theta)
        v = self.v_proj(x).unflatten(-1, (s.kv_heads, -1)).to(q.dtype)
        q, k, v = (t.transpose(1, 2) for t in (q, k.to(q.dtype), v))
        k, v = (t.repeat_interleave(s.heads // s.kv_heads, dim=1) for t in (k, v))
        return q, k, v, gate.flatten(-2)

    def finish(self, out: Tensor, gate: Tensor) -> Tensor:
        """Heads [B, heads, T, head_dim] to the layer's output [B, T, hidden]."""
        return self.o_proj(out.transpose(1, 2).flatten(-2) * gate.sigmoid())

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Causal attention over x [B, T, hidden] at positions [T]."""
        q, k, v, gate = self.project(x, positions)
        scores = (q @ k.transpose(-1, -2)).float() * self.s.head_dim**-0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        return self.finish(scores.masked_fill(later, -math.inf).softmax(-1).to(v.dtype) @ v, gate)


class Mlp(nn.Module):
    """SiLU-gated feed-forward."""

    def __init__(self, hidden: int, dim: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, dim, bias=False)
        self.up_proj = nn.Linear(hidden, dim, bias=False)
        self.down_proj = nn.Linear(dim, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform the last axis."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Top-k routed experts beside a shared one with its own gate."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.s = s
        self.gate = nn.Linear(s.hidden, s.experts, bias=False)
        self.experts = nn.ModuleList(Mlp(s.hidden, s.expert_dim) for _ in range(s.experts))
        self.shared_expert = Mlp(s.hidden, s.shared_dim)
        self.shared_expert_gate = nn.Linear(s.hidden, 1, bias=False)
        self.balance: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Transform the last axis; in training, keep the load-balancing term in `balance`."""
        s = self.s
        probabilities = self.gate(x).float().softmax(-1)
        top, index = probabilities.topk(s.experts_per_token, dim=-1)
        routed = torch.zeros_like(probabilities).scatter(-1, index, top / top.sum(-1, keepdim=True))
        if self.training:
            share = (routed > 0).float().flatten(0, -2).mean(0)
            self.balance = s.experts * (share * probabilities.flatten(0, -2).mean(0)).sum()
        up = torch.cat([w for e in self.experts for w in (e.gate_proj.weight, e.up_proj.weight)])
        gate, value = F.linear(x, up).unflatten(-1, (s.experts, 2, s.expert_dim)).unbind(-2)
        inner = F.silu(gate) * value * routed[..., None].to(gate.dtype)
        out = F.linear(inner.flatten(-2), torch.cat([e.down_proj.weight for e in self.experts], dim=1))
        return out + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)


class Layer(nn.Module):
    """One decoder layer of either kind."""

    def __init__(self, s: TargetShape, kind: str) -> None:
        super().__init__()
        if kind == "full_attention":
            self.self_attn = Attention(s)
        else:
            self.linear_attn = DeltaNet(s)
        self.kind = kind
        self.mlp = Experts(s)
        self.input_layernorm = CentredNorm(s.hidden)
        self.post_attention_layernorm = CentredNorm(s.hidden)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """One layer over x [B, T, hidden] at positions [T]."""
        normed = self.input_layernorm(x)
        x = x + (self.self_attn(normed, positions) if self.kind == "full_attention" else self.linear_attn(normed))
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(Layer(s, kind) for kind in s.layer_types)
        self.norm = CentredNorm(s.hidden)


class Target(nn.Module):
    """The target model."""

    def __init__(self, s: TargetShape) -> None:
        super().__init__()
        self.s = s
        self.model = Body(s)
        self.lm_head = nn.Linear(s.hidden, s.vocab, bias=False)
        init_weights(self)

    def forward(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Tokens [B, T] to the final normed hidden states [B, T, hidden] and the output of every layer."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.model.embed_tokens(tokens)
        outputs: list[Tensor] = []
        for layer in self.model.layers:
            x = layer(x, positions)
            outputs.append(x)
        return self.model.norm(x), outputs

    def balance(self) -> Tensor:
        """Mean load-balancing term of the last training forward (1 when perfectly even)."""
        return torch.stack([layer.mlp.balance for layer in self.model.layers]).mean()


def init_weights(module: nn.Module) -> None:
    """Normal weights scaled by fan-in; projections back into the residual stream smaller."""
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            continue
        fan = parameter[0].numel()
        scale = 0.4 if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")) else 1.0
        nn.init.normal_(parameter, std=0.5 if "embed_tokens" in name else scale / math.sqrt(fan))
