"""Position tables: how long a context target and drafter can index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("positions", "Position tables and context length")
EXTENDED = ("default", "linear", "llama3", "ntk", "proportional")


def _length(ctx: Context) -> int:
    return ctx.serve.max_model_len or need(ctx.target.integer("max_position_embeddings"), "serve.max_model_len")


@AREA.rule(
    "drafter-positions",
    Severity.ERROR,
    versions=">=0.28,<0.33",
    reason="The drafter's cos/sin table ends at its max_position_embeddings; a longer prompt indexes past it and the "
    "engine dies on a device-side assert.",
    fix="add `overlays: {drafter: positions-512k}` and build it (specdeck overlay), lower max_model_len, or use vLLM "
    ">= 0.33",
    evidence=("vllm#57941", "vllm#55279", "vllm#57964"),
    needs=("drafter.max_position_embeddings", "serve.max_model_len"),
)
def _drafter(ctx: Context) -> Iterator[Breach]:
    if ctx.method != "dflash" or ctx.drafter is None or ctx.recipe.overlays.drafter:
        return
    table = need(ctx.drafter.integer("max_position_embeddings"), "drafter.max_position_embeddings")
    if _length(ctx) > table:
        yield Breach(ctx.key("max_model_len"), f"{_length(ctx):,} is more than the drafter's {table:,} positions")


@AREA.rule(
    "drafter-positions-rope",
    Severity.WARNING,
    versions=">=0.33",
    reason="The drafter's table is extended by itself for rope types default, linear, llama3, ntk and proportional; "
    "with any other vLLM limits max_model_len to the drafter's table.",
    fix="lower max_model_len, or check the length that the server reports",
    evidence=("vllm#57964",),
    needs=("drafter.max_position_embeddings", "serve.max_model_len"),
)
def _rope(ctx: Context) -> Iterator[Breach]:
    if ctx.method != "dflash" or ctx.drafter is None:
        return
    table = need(ctx.drafter.integer("max_position_embeddings"), "drafter.max_position_embeddings")
    rope = ctx.drafter.word("rope_parameters", "rope_type") or ctx.drafter.word("rope_scaling", "rope_type")
    if _length(ctx) > table and (rope or "default") not in EXTENDED:
        yield Breach(ctx.key("max_model_len"), f"the drafter's rope type {rope!r} is not extended beyond {table:,}")


@AREA.rule(
    "drafter-overlay-not-needed",
    Severity.NOTE,
    versions=">=0.33",
    reason="From 0.33.0 vLLM extends the drafter's position table itself.",
    fix="remove overlays.drafter where the recipe no longer admits older versions",
    evidence=("vllm#57964",),
)
def _not_needed(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.recipe.overlays.drafter:
        yield Breach(("overlays", "drafter"), "the overlay is not needed on vLLM >= 0.33")


@AREA.rule(
    "target-positions",
    Severity.ERROR,
    versions=">=0.28",
    reason="The context is longer than the target's position table and nothing stretches it.",
    fix="add `overlays: {target: yarn-512k}`, set rope parameters by hf_overrides, or lower max_model_len",
    evidence=("vllm-project/recipes, models/Qwen/Qwen3.8-27B.yaml",),
    needs=("target.max_position_embeddings",),
)
def _target(ctx: Context) -> Iterator[Breach]:
    length = ctx.serve.max_model_len
    if not length or ctx.recipe.overlays.target or ctx.serve.hf_overrides:
        return
    table = need(ctx.target.integer("max_position_embeddings"), "target.max_position_embeddings")
    if length > table:
        yield Breach(ctx.key("max_model_len"), f"{length:,} is more than the target's {table:,} positions")
