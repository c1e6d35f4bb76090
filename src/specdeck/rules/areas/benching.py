"""What makes a comparison of drafters misleading, as far as a recipe shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("benching", "Comparing drafters")


@AREA.rule(
    "random-prompts",
    Severity.WARNING,
    versions=">=0",
    reason="Random tokens give acceptance that no real text has and can reverse the ranking.",
    fix="use prompts of real text, such as core-10",
    evidence=("vllm-project/recipes#839", "vllm-project/recipes#923"),
    stock=False,
)
def _random(ctx: Context) -> Iterator[Breach]:
    if ctx.recipe.prompts.startswith("random"):
        yield Breach(("prompts",), f"{ctx.recipe.prompts} looks like random prompts")


@AREA.rule(
    "warmup-is-measured",
    Severity.ERROR,
    versions=">=0",
    reason="Prompts that warmed the server up are prefix-cache hits when they are measured.",
    fix="name another file under warmup_prompts",
    evidence=("vllm#52883",),
    stock=False,
)
def _warmup(ctx: Context) -> Iterator[Breach]:
    if ctx.recipe.prompts == ctx.recipe.warmup_prompts:
        yield Breach(("warmup_prompts",), "the same prompts warm up and are measured")


@AREA.rule(
    "long-drafts-large-batch",
    Severity.NOTE,
    reason="At large batches and on free prose 7 drafted tokens were slower than MTP with 3, or than no drafter.",
    fix="sweep num_speculative_tokens at your own concurrency",
    evidence=("vllm-project/recipes#839", "vllm-project/recipes#923", "local-inference-lab/rtx6kpro"),
)
def _large(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.draft_tokens >= 7 and (ctx.serve.max_num_seqs or 256) >= 16:
        yield Breach(ctx.arm_key("num_speculative_tokens"), f"{ctx.draft_tokens} drafted tokens at large batches")


@AREA.rule(
    "hopper-draft-length",
    Severity.NOTE,
    reason="On an H20 with Qwen3.8-27B FP8, 5 drafted tokens (290.6 tok/s) beat MTP 3 (264.8), and 7 (234.7) lost.",
    fix="sweep num_speculative_tokens: 5 and 7",
    evidence=("vllm-project/recipes#839",),
    needs=("target.architecture",),
)
def _hopper(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.draft_tokens >= 7 and ctx.capability == (9, 0) and ctx.family() == "qwen3_5":
        yield Breach(ctx.arm_key("num_speculative_tokens"), f"{ctx.draft_tokens} drafted tokens on Hopper")
