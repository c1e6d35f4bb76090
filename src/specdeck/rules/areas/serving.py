"""Options that take away what measuring or clients need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("serving", "Serving options")
PARSERS = {
    "qwen3_5": ({"qwen3"}, {"qwen3_coder", "qwen3_xml"}),
    "qwen4_exp": ({"qwen3"}, {"qwen3_coder", "qwen3_xml"}),
    "glm5_next": ({"glm45"}, {"glm47"}),
}


@AREA.rule(
    "stats-disabled",
    Severity.ERROR,
    reason="--disable-log-stats removes the counters that acceptance is measured by.",
    fix="remove disable_log_stats",
    evidence=("vLLM 0.32.0, v1/spec_decode/metrics.py",),
    stock=False,
)
def _stats(ctx: Context) -> Iterator[Breach]:
    if ctx.option("disable_log_stats") is True:
        yield Breach(ctx.extra_key("disable_log_stats"), "no counters are exported")


@AREA.rule(
    "parser-of-another-family",
    Severity.WARNING,
    reason="A parser of another model family leaves reasoning or tool calls in the text.",
    fix="use the parsers of the model's own page",
    evidence=("vllm-project/recipes, models/Qwen/Qwen3.8-27B.yaml", "zai-org/GLM-5.3-Flash model card"),
    needs=("target.architecture",),
)
def _parsers(ctx: Context) -> Iterator[Breach]:
    asked = {"reasoning_parser": ctx.serve.reasoning_parser, "tool_call_parser": ctx.serve.tool_call_parser}
    if not any(asked.values()):
        return
    for (key, value), allowed in zip(asked.items(), PARSERS.get(ctx.family(), ()), strict=False):
        if value and value not in allowed:
            yield Breach(
                ctx.key(key), f"{value!r} is not a parser of this family", f"write {' or '.join(sorted(allowed))}"
            )


@AREA.rule(
    "tool-choice-without-parser",
    Severity.ERROR,
    reason="--enable-auto-tool-choice needs a tool call parser; vLLM refuses to start without.",
    fix="add tool_call_parser",
    evidence=("vLLM documentation: tool calling",),
)
def _tools(ctx: Context) -> Iterator[Breach]:
    if ctx.serve.enable_auto_tool_choice and not ctx.serve.tool_call_parser:
        yield Breach(ctx.key("enable_auto_tool_choice"), "automatic tool choice without a parser")


@AREA.rule(
    "tokenizer-missing",
    Severity.ERROR,
    reason="Without tokenizer.json the reasoning parser fails (failed to tokenize reasoning strings).",
    fix="copy tokenizer.json from the base model into the folder",
    evidence=("syv-ai/qwen38-27b-rtx3090 gotcha 36",),
    needs=("target.files",),
)
def _tokenizer(ctx: Context) -> Iterator[Breach]:
    if ctx.serve.reasoning_parser and "tokenizer.json" not in need(ctx.target.files, "target.files"):
        yield Breach(("target",), f"{ctx.target.name} has no tokenizer.json")


@AREA.rule(
    "synthetic-rejection",
    Severity.ERROR,
    reason="Synthetic rejection sampling accepts drafts by dice: the text is wrong by design.",
    fix="remove speculative.rejection_sample_method: synthetic; it is for measuring the cost of a drafter only",
    evidence=("vLLM 0.32.0, config/speculative.py",),
    stock=False,
)
def _synthetic(ctx: Context) -> Iterator[Breach]:
    if ctx.arm.speculative.get("rejection_sample_method") == "synthetic":
        yield Breach(ctx.arm_key("speculative", "rejection_sample_method"), "serves wrong text")


@AREA.rule(
    "dummy-weights",
    Severity.ERROR,
    reason="With load_format: dummy the weights are random: nothing is accepted and the text means nothing.",
    fix="remove load_format",
    evidence=("vLLM documentation: load formats",),
    stock=False,
)
def _dummy(ctx: Context) -> Iterator[Breach]:
    if ctx.option("load_format") == "dummy":
        yield Breach(ctx.extra_key("load_format"), "serves random weights")
