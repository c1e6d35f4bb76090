"""Environment variables that vLLM no longer reads, or reads wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("environment", "Environment variables")
TABLE = "VLLM_PLE_CPU_OFFLOAD"
MARLIN = "VLLM_MARLIN_INPUT_DTYPE"


@AREA.rule(
    "env-ple-removed",
    Severity.WARNING,
    versions=">=0.31",
    reason=f"{TABLE} was removed in 0.31: vLLM logs an unknown variable and ignores it.",
    fix="remove it; write extra: {engram_config: {cpu_offload: true}} if you rely on it (it is the default)",
    evidence=("vllm#53899", "vllm#54371"),
)
def _removed(ctx: Context) -> Iterator[Breach]:
    if TABLE in ctx.serve.env:
        yield Breach(ctx.key("env", TABLE), f"vLLM no longer reads {TABLE}")


@AREA.rule(
    "env-ple-too-early",
    Severity.WARNING,
    versions=">=0.28,<0.30",
    reason=f"{TABLE} exists in 0.30 only; before that it is not read.",
    fix="remove it",
    evidence=("vllm#54371",),
)
def _early(ctx: Context) -> Iterator[Breach]:
    if TABLE in ctx.serve.env:
        yield Breach(ctx.key("env", TABLE), f"this vLLM does not read {TABLE}")


@AREA.rule(
    "engram-config-too-early",
    Severity.ERROR,
    versions="<0.31",
    reason="--engram-config came with 0.31; an earlier vLLM does not know the option and does not start.",
    fix="use vLLM >= 0.31, or remove engram_config",
    evidence=("vllm#54371",),
)
def _engram(ctx: Context) -> Iterator[Breach]:
    if ctx.option("engram_config") is not None:
        yield Breach(ctx.extra_key("engram_config"), "this vLLM has no --engram-config")


@AREA.rule(
    "env-blank",
    Severity.ERROR,
    reason=f"{MARLIN} must be unset, not blank: an empty value is not a data type.",
    fix="remove the variable",
    evidence=("noonghunna/club-3090", "tonyd2wild/Qwen3.8-27B-AutoRound-W4A16-2x3090"),
)
def _blank(ctx: Context) -> Iterator[Breach]:
    if ctx.serve.env.get(MARLIN) == "":
        yield Breach(ctx.key("env", MARLIN), f"{MARLIN} is empty")
