"""The sizes of the pair and the config.json of both halves, as vLLM and transformers read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VOCAB = 1536
PAD_ID, START_ID, END_ID, MASK_ID = 0, 1, 2, 3
POSITIONS = 4096
EPS = 1e-6


@dataclass(frozen=True, slots=True)
class TargetShape:
    """A Qwen3-Next hybrid: three gated-delta-net layers, then one full-attention layer, experts everywhere.

    Two recurrent states of 64 x 64 (the CPU kernels refuse 32) against 512 bytes of attention cache a token keep
    the engine's attention block at 128 tokens, so that prefix-cache hits show on moderate prompts.
    """

    vocab: int = VOCAB
    hidden: int = 128
    layer_types: tuple[str, ...] = ("linear_attention",) * 3 + ("full_attention",)
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    rotary_dim: int = 16
    rope_theta: float = 10000.0
    gdn_key_heads: int = 2
    gdn_value_heads: int = 2
    gdn_head_dim: int = 64
    gdn_conv: int = 4
    experts: int = 4
    experts_per_token: int = 2
    expert_dim: int = 64
    shared_dim: int = 128

    def config(self) -> dict[str, Any]:
        """config.json of the target."""
        return {
            "architectures": ["Qwen3NextForCausalLM"],
            "model_type": "qwen3_next",
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": 2 * self.hidden,
            "num_hidden_layers": len(self.layer_types),
            "num_nextn_predict_layers": 1,
            "layer_types": list(self.layer_types),
            "full_attention_interval": 4,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "partial_rotary_factor": self.rotary_dim / self.head_dim,
            "rope_theta": self.rope_theta,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "partial_rotary_factor": self.rotary_dim / self.head_dim,
            },
            "linear_num_key_heads": self.gdn_key_heads,
            "linear_num_value_heads": self.gdn_value_heads,
            "linear_key_head_dim": self.gdn_head_dim,
            "linear_value_head_dim": self.gdn_head_dim,
            "linear_conv_kernel_dim": self.gdn_conv,
            "num_experts": self.experts,
            "num_experts_per_tok": self.experts_per_token,
            "moe_intermediate_size": self.expert_dim,
            "shared_expert_intermediate_size": self.shared_dim,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "norm_topk_prob": True,
            "output_router_logits": False,
            "router_aux_loss_coef": 0.001,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "rms_norm_eps": EPS,
            "max_position_embeddings": POSITIONS,
            "initializer_range": 0.02,
            "tie_word_embeddings": False,
            "use_cache": True,
            "bos_token_id": None,
            "eos_token_id": END_ID,
            "pad_token_id": PAD_ID,
            "dtype": "bfloat16",
            "torch_dtype": "bfloat16",
        }


@dataclass(frozen=True, slots=True)
class DrafterShape:
    """A DFlash2 drafter: sliding-window layers without causality, grouped dynamic convolutions, a selector.

    Its keys and values take as many bytes a token as the target's: the engine then uses one block size for both.
    """

    hidden: int = 128
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    mlp_dim: int = 192
    rope_theta: float = 10000.0
    window: int = 256
    block: int = 8
    conv_taps: int = 2
    conv_group: int = 16
    selector_rank: int = 32
    selector_top_k: int = 8
    target_layers: tuple[int, ...] = field(default=(0, 2, 3))

    @property
    def drafts(self) -> int:
        """Tokens drafted at a time: the block without its anchor."""
        return self.block - 1

    def config(self, target: TargetShape) -> dict[str, Any]:
        """config.json of the drafter."""
        return {
            "architectures": ["DFlash2DraftModel"],
            "model_type": "qwen3",
            "is_causal": False,
            "vocab_size": target.vocab,
            "hidden_size": self.hidden,
            "intermediate_size": self.mlp_dim,
            "num_hidden_layers": self.layers,
            "num_target_layers": len(target.layer_types),
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": EPS,
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "max_position_embeddings": POSITIONS,
            "attention_bias": False,
            "use_sliding_window": True,
            "sliding_window": self.window,
            "layer_types": ["sliding_attention"] * self.layers,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": END_ID,
            "block_size": self.block,
            "dflash_config": {
                "block_size": self.block,
                "mask_token_id": MASK_ID,
                "target_layer_ids": list(self.target_layers),
                "conv_kernel_size": self.conv_taps,
                "conv_group_size": self.conv_group,
                "selector_rank": self.selector_rank,
                "selector_top_k": self.selector_top_k,
            },
            "dtype": "bfloat16",
            "torch_dtype": "bfloat16",
        }
