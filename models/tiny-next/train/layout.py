"""What vLLM 0.32 loads: names and shapes of every tensor of both halves, from their config.json alone. No torch.

Written from the engine's loaders, not from the trainer's modules, so that the two can be held against each other
before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Shapes = dict[str, tuple[int, ...]]

_DFLASH_KEYS = (
    "block_size",
    "mask_token_id",
    "target_layer_ids",
    "conv_kernel_size",
    "conv_group_size",
    "selector_rank",
    "selector_top_k",
)


class LayoutError(ValueError):
    """A checkpoint that the engine would refuse, or load as something else; the message lists all differences."""


def _experts(prefix: str, c: Mapping[str, Any]) -> Shapes:
    hidden, dim, shared = c["hidden_size"], c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
    shapes: Shapes = {
        f"{prefix}gate.weight": (c["num_experts"], hidden),
        f"{prefix}shared_expert_gate.weight": (1, hidden),
    }
    blocks = [(f"{prefix}experts.{i}.", dim) for i in range(c["num_experts"])]
    for block, width in [*blocks, (f"{prefix}shared_expert.", shared)]:
        shapes[f"{block}gate_proj.weight"] = shapes[f"{block}up_proj.weight"] = (width, hidden)
        shapes[f"{block}down_proj.weight"] = (hidden, width)
    return shapes


def _attention(prefix: str, c: Mapping[str, Any], gate: int) -> Shapes:
    hidden, dim, heads, kv = c["hidden_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    return {
        f"{prefix}q_proj.weight": (gate * heads * dim, hidden),
        f"{prefix}k_proj.weight": (kv * dim, hidden),
        f"{prefix}v_proj.weight": (kv * dim, hidden),
        f"{prefix}o_proj.weight": (hidden, heads * dim),
        f"{prefix}q_norm.weight": (dim,),
        f"{prefix}k_norm.weight": (dim,),
    }


def _delta_net(prefix: str, c: Mapping[str, Any]) -> Shapes:
    hidden, heads = c["hidden_size"], c["linear_num_value_heads"]
    keys, values = c["linear_num_key_heads"] * c["linear_key_head_dim"], heads * c["linear_value_head_dim"]
    return {
        f"{prefix}in_proj_qkvz.weight": (2 * keys + 2 * values, hidden),
        f"{prefix}in_proj_ba.weight": (2 * heads, hidden),
        f"{prefix}conv1d.weight": (2 * keys + values, 1, c["linear_conv_kernel_dim"]),
        f"{prefix}dt_bias": (heads,),
        f"{prefix}A_log": (heads,),
        f"{prefix}norm.weight": (c["linear_value_head_dim"],),
        f"{prefix}out_proj.weight": (hidden, values),
    }


def _target_layer(prefix: str, kind: str, c: Mapping[str, Any]) -> Shapes:
    hidden = c["hidden_size"]
    mixer = (
        _attention(f"{prefix}self_attn.", c, 2) if kind == "full_attention" else _delta_net(f"{prefix}linear_attn.", c)
    )
    norms: Shapes = {
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}post_attention_layernorm.weight": (hidden,),
    }
    return mixer | _experts(f"{prefix}mlp.", c) | norms


def target_layout(config: Mapping[str, Any]) -> Shapes:
    """Tensors of a Qwen3NextForCausalLM checkpoint with its MTP layers."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    shapes: Shapes = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (vocab, hidden),
        "mtp.fc.weight": (hidden, 2 * hidden),
        "mtp.norm.weight": (hidden,),
        "mtp.pre_fc_norm_hidden.weight": (hidden,),
        "mtp.pre_fc_norm_embedding.weight": (hidden,),
    }
    for i, kind in enumerate(config["layer_types"]):
        shapes |= _target_layer(f"model.layers.{i}.", kind, config)
    for i in range(config["num_nextn_predict_layers"]):
        shapes |= _target_layer(f"mtp.layers.{i}.", "full_attention", config)
    return shapes


def drafter_layout(config: Mapping[str, Any]) -> Shapes:
    """Tensors of a DFlash2DraftModel checkpoint, which has neither embedding nor head of its own."""
    hidden, mlp, flash = config["hidden_size"], config["intermediate_size"], config["dflash_config"]
    taps, groups, rank = flash["conv_kernel_size"], hidden // flash["conv_group_size"], flash["selector_rank"]
    shapes: Shapes = {
        "fc.weight": (hidden, hidden * len(flash["target_layer_ids"])),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
        "candidate_selector.predecessor_codebook": (config["vocab_size"], rank),
        "candidate_selector.successor_codebook": (config["vocab_size"], rank),
        "candidate_selector.hidden_projection.weight": (rank, hidden),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"layers.{i}."
        shapes |= _attention(f"{layer}self_attn.", config, 1)
        for conv in ("attention_conv", "mlp_conv"):
            shapes[f"{layer}{conv}.base_kernel"] = (2, taps, hidden)
            shapes[f"{layer}{conv}.kernel_projection.weight"] = (2 * taps * groups, hidden)
        shapes[f"{layer}mlp.gate_proj.weight"] = shapes[f"{layer}mlp.up_proj.weight"] = (mlp, hidden)
        shapes[f"{layer}mlp.down_proj.weight"] = (hidden, mlp)
        shapes[f"{layer}input_layernorm.weight"] = shapes[f"{layer}post_attention_layernorm.weight"] = (hidden,)
    return shapes


def differences(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Every way in which two sets of tensor shapes differ, one line each."""
    lines = [f"missing: {name} {shape}" for name, shape in expected.items() if name not in found]
    lines += [f"not loaded by the engine: {name} {shape}" for name, shape in found.items() if name not in expected]
    lines += [
        f"{name}: shape {found[name]}, the engine expects {shape}"
        for name, shape in expected.items()
        if name in found and tuple(found[name]) != shape
    ]
    return lines


def config_problems(target: Mapping[str, Any], drafter: Mapping[str, Any]) -> list[str]:
    """What is wrong with the pair's configurations: architecture, causality, taps, block, shared sizes."""
    flash = drafter.get("dflash_config", {})
    lines = [f"dflash_config.{key} is missing" for key in _DFLASH_KEYS if key not in flash]
    if lines:
        return lines
    wanted = {
        "target architecture is Qwen3NextForCausalLM": target["architectures"] == ["Qwen3NextForCausalLM"],
        "drafter architecture is DFlash2DraftModel": drafter["architectures"] == ["DFlash2DraftModel"],
        "drafter is_causal is false": drafter["is_causal"] is False,
        "every drafter layer slides": set(drafter["layer_types"]) == {"sliding_attention"},
        "one layer type per drafter layer": len(drafter["layer_types"]) == drafter["num_hidden_layers"],
        "drafter has a sliding window": drafter["use_sliding_window"] and drafter["sliding_window"] > 0,
        "hidden sizes agree": drafter["hidden_size"] == target["hidden_size"],
        "vocabularies agree": drafter["vocab_size"] == target["vocab_size"],
        "mask token is in the vocabulary": 0 <= flash["mask_token_id"] < target["vocab_size"],
        "taps are layers of the target": all(0 <= i < len(target["layer_types"]) for i in flash["target_layer_ids"]),
        "several taps, in order": sorted(set(flash["target_layer_ids"])) == flash["target_layer_ids"]
        and len(flash["target_layer_ids"]) > 1,
        "conv groups divide the hidden size": drafter["hidden_size"] % flash["conv_group_size"] == 0,
        "selector keeps fewer candidates than the vocabulary": 0 < flash["selector_top_k"] < drafter["vocab_size"],
    }
    return [f"not so: {claim}" for claim, holds in wanted.items() if not holds]


def require_layout(
    target_config: Mapping[str, Any],
    target: Mapping[str, tuple[int, ...]],
    drafter_config: Mapping[str, Any],
    drafter: Mapping[str, tuple[int, ...]],
) -> None:
    """Refuse a pair that the engine would not load as intended.

    Raises:
        LayoutError: with all differences in names, shapes and configuration.
    """
    lines = config_problems(target_config, drafter_config)
    if not lines:
        lines += [f"target: {line}" for line in differences(target, target_layout(target_config))]
        lines += [f"drafter: {line}" for line in differences(drafter, drafter_layout(drafter_config))]
    if lines:
        raise LayoutError("the pair does not have the layout that vLLM loads:\n" + "\n".join(lines))
