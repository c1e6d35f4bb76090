"""Whether a DFlash2 drafter belongs to its target, and what of it vLLM reads or ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.checkpoint import CheckpointFacts
    from specdeck.rules.context import Context

AREA = Area("drafter", "Drafter and target")
KNOWN_TAPS = {"qwen3_5": [5, 19, 33, 47, 61], "qwen4_exp": [5, 15, 25, 35, 45], "glm5_next": [5, 14, 24, 33, 42]}


def _drafter(ctx: Context) -> CheckpointFacts | None:
    return ctx.drafter if ctx.method == "dflash" else None


@AREA.rule(
    "drafter-quantized",
    Severity.ERROR,
    versions=">=0.28,<0.31",
    reason="The fused context-KV buffer reads a dense qkv_proj.weight, so a W4A16, FP8 or NVFP4 drafter fails to load "
    "('QKVParallelLinear' object has no attribute 'weight').",
    fix="use the bf16 drafter, or vLLM >= 0.31",
    evidence=("vllm#51581", "vllm#53116", "vllm#53107"),
    needs=("drafter.config",),
)
def _quantized(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        kind = need(drafter.quantization, "drafter.config")
        if kind != "none":
            yield Breach(("drafter",), f"the drafter is quantised ({kind})")


@AREA.rule(
    "draft-length-over-block",
    Severity.WARNING,
    reason="The drafter was trained on blocks of block_size positions, the anchor included. vLLM never reads the "
    "value; with n > block_size - 1 it starts and the last positions are seldom accepted.",
    fix="write num_speculative_tokens of at most block_size - 1",
    evidence=("vllm#52816",),
    needs=("drafter.block_size",),
)
def _length(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        block = need(drafter.integer("dflash_config", "block_size"), "drafter.block_size")
        if ctx.draft_tokens > block - 1:
            yield Breach(
                ctx.arm_key("num_speculative_tokens"),
                f"drafts {ctx.draft_tokens} tokens, the drafter was trained for {block - 1}",
                f"write num_speculative_tokens: {max(block - 1, 1)}",
            )


@AREA.rule(
    "drafter-vocabulary",
    Severity.ERROR,
    reason="The drafter shares the target's embedding and lm_head, so the vocabularies must be one.",
    fix="use the drafter that was trained for this target",
    evidence=("vllm#52816",),
    needs=("drafter.vocab_size", "target.vocab_size"),
)
def _vocabulary(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        mine = need(drafter.integer("vocab_size"), "drafter.vocab_size")
        theirs = need(ctx.target.integer("vocab_size"), "target.vocab_size")
        if mine != theirs:
            yield Breach(("drafter",), f"vocabulary of {mine:,} tokens, the target has {theirs:,}")


@AREA.rule(
    "drafter-hidden-size",
    Severity.ERROR,
    reason="The drafter reads the target's hidden states and shares its lm_head, so hidden_size (or the drafter's "
    "target_hidden_size) must be the target's.",
    fix="use the drafter that was trained for this target",
    evidence=("vllm#52816",),
    needs=("drafter.hidden_size", "target.hidden_size"),
)
def _hidden(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        mine = drafter.integer("target_hidden_size") or need(drafter.integer("hidden_size"), "drafter.hidden_size")
        theirs = need(ctx.target.integer("hidden_size"), "target.hidden_size")
        if mine != theirs:
            yield Breach(("drafter",), f"hidden size {mine}, the target has {theirs}")


@AREA.rule(
    "drafter-taps-range",
    Severity.ERROR,
    reason="target_layer_ids name layers whose hidden states the drafter reads; each must be a layer of the target.",
    fix="use the drafter that was trained for this target",
    evidence=("vllm#52816",),
    needs=("drafter.target_layer_ids", "target.num_hidden_layers"),
)
def _taps(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        taps = need(drafter.integers("dflash_config", "target_layer_ids"), "drafter.target_layer_ids")
        layers = need(ctx.target.integer("num_hidden_layers"), "target.num_hidden_layers")
        bad = [tap for tap in taps if not 0 <= tap < layers]
        if bad or not taps:
            yield Breach(("drafter",), f"taps {taps}, the target has layers 0 to {layers - 1}")


@AREA.rule(
    "drafter-taps-published",
    Severity.WARNING,
    reason="A tap that is off by one raises no error and lowers acceptance. vLLM adds 1 to each id and logs the sum as "
    "auxiliary layers.",
    fix="compare dflash_config.target_layer_ids with the drafter's published config.json",
    evidence=("vllm#52883", "noonghunna/club-3090 drafter profile"),
    needs=("drafter.target_layer_ids", "target.architecture"),
)
def _published(ctx: Context) -> Iterator[Breach]:
    if (drafter := _drafter(ctx)) and (known := KNOWN_TAPS.get(ctx.family())):
        taps = need(drafter.integers("dflash_config", "target_layer_ids"), "drafter.target_layer_ids")
        if taps != known:
            yield Breach(("drafter",), f"taps {taps}; the published drafter of this family has {known}")


@AREA.rule(
    "drafter-is-causal",
    Severity.WARNING,
    reason="The drafter's layers are sliding and not causal. Without `is_causal: false` the sliding layers resolve to "
    "causal: drafts stay plausible and only acceptance falls.",
    fix="use a config.json that has is_causal: false at its top level",
    evidence=("vllm#52883",),
    needs=("drafter.config",),
)
def _causal(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        config = need(drafter.config or None, "drafter.config")
        nested = drafter.value("dflash_config", "causal")
        if drafter.partial:
            need(config.get("is_causal"), "drafter.config")
        if config.get("is_causal") is not False and not (config.get("is_causal") is None and nested is False):
            yield Breach(("drafter",), f"is_causal is {config.get('is_causal')!r} in the drafter's config.json")


@AREA.rule(
    "drafter-sample-from-anchor",
    Severity.ERROR,
    reason="vLLM refuses drafters that sample from the anchor.",
    fix="use a drafter without dflash_config.sample_from_anchor",
    evidence=("vLLM 0.32.0, v1/worker/gpu/spec_decode/dflash/speculator.py",),
    needs=("drafter.config",),
)
def _anchor(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        need(None if drafter.partial else drafter.config or None, "drafter.config")
        if drafter.value("dflash_config", "sample_from_anchor") is True or drafter.value("sample_from_anchor") is True:
            yield Breach(("drafter",), "sample_from_anchor is true")


@AREA.rule(
    "drafter-architecture",
    Severity.ERROR,
    reason="The method dflash needs a drafter whose architecture is a DFlash one; DSpark and EAGLE drafters, or a "
    "placeholder repository, do not load as one.",
    fix="name a DFlash2 drafter that was trained for this target",
    evidence=("vllm#52816",),
    needs=("drafter.architecture",),
)
def _architecture(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        listed = drafter.value("architectures")
        name = listed[0] if isinstance(listed, list) and listed else drafter.architecture
        name = need(name, "drafter.architecture")
        if not str(name).startswith("DFlash"):
            yield Breach(("drafter",), f"the architecture is {str(name)[:60]}")


@AREA.rule(
    "drafter-mask-token",
    Severity.ERROR,
    reason="The mask token fills the positions to be drafted; an id outside the vocabulary gathers out of bounds.",
    fix="use the drafter's published config.json",
    evidence=("vllm#52816",),
    needs=("drafter.mask_token_id", "drafter.vocab_size"),
)
def _mask(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        mask = need(drafter.integer("dflash_config", "mask_token_id"), "drafter.mask_token_id")
        if mask >= need(drafter.integer("vocab_size"), "drafter.vocab_size"):
            yield Breach(("drafter",), f"mask_token_id {mask} is not in the vocabulary")


@AREA.rule(
    "drafter-conv-groups",
    Severity.ERROR,
    reason="The drafter's convolution is grouped; the group size must divide the hidden size.",
    fix="use the drafter's published config.json",
    evidence=("vLLM 0.32.0, model_executor/models/qwen3_dflash2.py",),
    needs=("drafter.conv_group_size", "drafter.hidden_size"),
)
def _groups(ctx: Context) -> Iterator[Breach]:
    if drafter := _drafter(ctx):
        group = need(drafter.integer("dflash_config", "conv_group_size"), "drafter.conv_group_size")
        hidden = need(drafter.integer("hidden_size"), "drafter.hidden_size")
        if group == 0 or hidden % group:
            yield Breach(("drafter",), f"conv_group_size {group} does not divide the hidden size {hidden}")


@AREA.rule(
    "draft-head-quantization",
    Severity.WARNING,
    versions=">=0.33",
    reason="draft_lm_head_quantization is for EAGLE and MTP drafters; a DFlash2 drafter uses the target's head.",
    fix="remove speculative.draft_lm_head_quantization from this arm",
    evidence=("vLLM 0.33.0, config/speculative.py",),
)
def _head(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and "draft_lm_head_quantization" in ctx.arm.speculative:
        yield Breach(ctx.arm_key("speculative", "draft_lm_head_quantization"), "has no meaning for DFlash2")
