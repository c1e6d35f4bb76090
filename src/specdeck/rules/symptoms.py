"""Which known trap an error of a server's log belongs to. The texts are vLLM's, as the rules' evidence quotes them."""

from __future__ import annotations

SYMPTOMS: tuple[tuple[str, str], ...] = (
    ("only supported for an unquantized lm_head", "head-dtype-quantized"),
    ("Model Runner V1 does not support", "v1-runner-refused"),
    ("no module named candidate_selector", "v1-runner-silent"),
    ("'QKVParallelLinear' object has no attribute 'weight'", "drafter-quantized"),
    ("must divide the attention block size", "qsa-ring-capacity"),
    ("Qwen4Exp speculative decoding supports only", "flash-next-method-allowlist"),
    ("QSA requires a BF16 main KV cache", "qsa-kv-bf16-only"),
    ("does not support EAGLE3 interface but aux_hidden_state_outputs", "glm-dflash-interface"),
    ("Padding is only supported for non-MLA", "glm-drafter-kv-group"),
    ("Failed to promote local KV cache specs to one unified type", "kv-connector-hybrid"),
    ("'NoneType' object is not subscriptable", "dflash-mtp-buffer"),
    ("'Qwen3_5Config' object has no attribute 'vocab_size'", "dflash-in-mtp-path"),
    ("type fp8e4nv not supported in this architecture", "moe-fp8-old-gpu"),
    ("is not supported for unquantized MoE", "moe-marlin-unquantized-mtp"),
    ("failed to tokenize reasoning strings", "tokenizer-missing"),
    ("custom_all_reduce.cuh", "all-reduce-3090-nvlink"),
    ("out of considered ranges", "draft-batch-tokens"),
)


def rule_for(error: str) -> str | None:
    """Return the id of the rule that an error belongs to; None when no rule is known."""
    return next((rule for text, rule in SYMPTOMS if text.lower() in error.lower()), None)


def known_trap(error: str) -> str:
    """Return a line that names the rule, to be added to an error; empty when none is known."""
    rule = rule_for(error)
    return f"\n  known trap: {rule} (specdeck rules show {rule})" if rule else ""
