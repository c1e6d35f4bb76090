"""Prefix caching, recurrent states and KV connectors: where wrong text and lost hits come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("caching", "Prefix caching, recurrent states and KV connectors")
# Connectors that declare SupportsHMA in vLLM 0.32.
WITH_HYBRID_MANAGER = {
    "MultiConnector", "ExampleHiddenStatesConnector", "MooncakeConnector", "MooncakeStoreConnector", "MoRIIOConnector",
    "SimpleCPUOffloadConnector", "HiSparseConnector", "OffloadingConnector", "DecodeBenchConnector", "NixlConnector",
}  # fmt: skip
CORRUPTING = ("LMCache", "MooncakeStore")


def _connector(ctx: Context) -> str | None:
    config: Any = ctx.option("kv_transfer_config")
    name = config.get("kv_connector") if isinstance(config, dict) else None
    return name if isinstance(name, str) else None


@AREA.rule(
    "kv-connector-hybrid",
    Severity.ERROR,
    reason="A connector without SupportsHMA turns the hybrid KV cache manager off, and a target with recurrent states "
    "cannot do without (Failed to promote local KV cache specs to one unified type).",
    fix="remove kv_transfer_config, or use OffloadingConnector or SimpleCPUOffloadConnector",
    evidence=("vLLM 0.32.0, vllm/config/vllm.py", "vllm#52883"),
    needs=("target.architecture",),
)
def _hma(ctx: Context) -> Iterator[Breach]:
    name = _connector(ctx)
    if name and name not in WITH_HYBRID_MANAGER and ctx.hybrid():
        yield Breach(ctx.extra_key("kv_transfer_config"), f"{name} does not support the hybrid KV cache manager")


@AREA.rule(
    "kv-connector-corrupts",
    Severity.WARNING,
    reason="Shared prefixes of hybrid targets have been silently corrupted through these connectors even where they "
    "start.",
    fix="remove kv_transfer_config, or run a shared-prefix correctness probe on every build",
    evidence=("LMCache#4247", "vllm#53084"),
    needs=("target.architecture",),
)
def _corrupts(ctx: Context) -> Iterator[Breach]:
    name = _connector(ctx)
    if name and name.startswith(CORRUPTING) and ctx.hybrid():
        yield Breach(ctx.extra_key("kv_transfer_config"), f"{name} on a target with recurrent states")


@AREA.rule(
    "mtp-prefix-cache-hybrid",
    Severity.WARNING,
    reason="MTP with prefix caching on a target with recurrent states has served wrong, empty or repeated text on "
    "shared prefixes, silently and until a restart.",
    fix="write enable_prefix_caching: false for this arm, or run a shared-prefix correctness probe",
    evidence=("vllm#43559", "vllm#53912", "vllm#57128", "vllm#48375"),
    needs=("target.architecture",),
)
def _mtp(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "mtp" and ctx.serve.enable_prefix_caching and ctx.hybrid():
        yield Breach(ctx.key("enable_prefix_caching"), "MTP with prefix caching on a hybrid target")


@AREA.rule(
    "mtp-pipeline-prefix-cache",
    Severity.WARNING,
    reason="Pipeline parallelism with MTP and prefix caching made 14 to 33 % of requests loop on one token.",
    fix="avoid pipeline_parallel_size with MTP, or switch prefix caching off",
    evidence=("wtdcode/vllm-backport#63",),
    stock=False,
)
def _pipeline(ctx: Context) -> Iterator[Breach]:
    serve = ctx.serve
    if ctx.method == "mtp" and (serve.pipeline_parallel_size or 1) > 1 and serve.enable_prefix_caching is not False:
        yield Breach(ctx.key("pipeline_parallel_size"), "pipeline parallelism with MTP and prefix caching")


@AREA.rule(
    "prefix-cache-whole-blocks",
    Severity.NOTE,
    reason="A DFlash2 drafter's sliding-window group allows prefix hits of whole blocks only; on a hybrid target a "
    "block is hundreds to thousands of tokens, and a prefix of less than two gets no hit.",
    fix="expect fewer hits than without a drafter, and compare prefill at equal hits",
    evidence=("vllm#53786", "vllm#53670", "eugr/spark-vllm-docker#355"),
    needs=("target.architecture",),
)
def _whole(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.serve.enable_prefix_caching and ctx.hybrid():
        yield Breach(ctx.key("enable_prefix_caching"), "prefix hits of whole blocks only")


@AREA.rule(
    "eagle-block-drop",
    Severity.NOTE,
    versions=">=0.32,<0.33",
    reason="0.32 drops the trailing block of every prefix hit for DFlash as it does for EAGLE; 0.33 no longer does.",
    fix="add speculative: {disable_eagle_block_drop: true} to the arm, or use vLLM >= 0.33",
    evidence=("vllm#53388",),
)
def _drop(ctx: Context) -> Iterator[Breach]:
    told = ctx.arm.speculative.get("disable_eagle_block_drop")
    if ctx.method == "dflash" and ctx.serve.enable_prefix_caching and told is not True:
        yield Breach(ctx.key("enable_prefix_caching"), "each prefix hit loses its last block")


@AREA.rule(
    "prefix-match-unit-overridden",
    Severity.WARNING,
    versions=">=0.32",
    reason="prefix_match_unit has no effect while a draft group with a sliding window is loaded.",
    fix="remove prefix_match_unit from this arm",
    evidence=("vLLM 0.32.0, v1/core/kv_cache_utils.py",),
)
def _unit(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.option("prefix_match_unit") is not None:
        yield Breach(ctx.extra_key("prefix_match_unit"), "is overridden by the drafter's sliding-window group")


@AREA.rule(
    "fork-prefix-cache-option",
    Severity.ERROR,
    reason="--enable-mamba-fine-grained-prefix-cache is an option of a fork; vLLM does not know it and does not start.",
    fix="remove it (vLLM's own option is enable_mamba_shared_prefix_checkpoint, from 0.32)",
    evidence=("vllm#53945",),
)
def _fork_option(ctx: Context) -> Iterator[Breach]:
    if ctx.option("enable_mamba_fine_grained_prefix_cache") is not None:
        yield Breach(ctx.extra_key("enable_mamba_fine_grained_prefix_cache"), "vLLM has no such option")


@AREA.rule(
    "gdn-illegal-access",
    Severity.WARNING,
    versions=">=0.26",
    reason="Speculative decoding on gated-delta-net layers looks up accepted-token states without a bound: illegal "
    "memory access (Xid 31) was reported with prefix caching and more than 4 drafted tokens, after 100 s to 11,000 "
    "steps.",
    fix="write enable_prefix_caching: false for this arm, or num_speculative_tokens of at most 4; soak before use",
    evidence=("vllm#50021", "vllm#40756", "eugr/spark-vllm-docker#308", "syv-ai/qwen38-27b-rtx3090#72"),
    needs=("target.architecture",),
)
def _gdn(ctx: Context) -> Iterator[Breach]:
    if (
        ctx.cuda
        and ctx.draft_tokens > 4
        and ctx.serve.enable_prefix_caching
        and ctx.family() in ("qwen3_5", "qwen3_next", "qwen4_exp")
    ):
        yield Breach(ctx.arm_key("num_speculative_tokens"), f"{ctx.draft_tokens} drafted tokens with prefix caching")


@AREA.rule(
    "full-graphs-prefix-cache",
    Severity.WARNING,
    reason="Full CUDA graphs corrupted answers at certain prefix-hit lengths on a hybrid target.",
    fix="write compilation_config: {cudagraph_mode: PIECEWISE}, or run a shared-prefix correctness probe",
    evidence=("syv-ai/qwen38-27b-rtx3090 gotcha 37",),
    needs=("target.architecture",),
)
def _graphs(ctx: Context) -> Iterator[Breach]:
    config: Any = ctx.option("compilation_config")
    mode = config.get("cudagraph_mode") if isinstance(config, dict) else None
    if isinstance(mode, str) and mode.upper().startswith("FULL") and ctx.serve.enable_prefix_caching and ctx.hybrid():
        yield Breach(ctx.extra_key("compilation_config"), f"cudagraph_mode {mode} with prefix caching")


@AREA.rule(
    "state-cache-precision",
    Severity.NOTE,
    reason="The recurrent state defaults to fp32; on an H100 float16 was about 15 % faster.",
    fix="try mamba_ssm_cache_dtype: float16, and compare quality",
    evidence=("HammGsm/qwen38-27b-dflash2-h100 README",),
    needs=("target.architecture",),
)
def _state(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.capability == (9, 0) and ctx.serve.mamba_ssm_cache_dtype is None and ctx.family() == "qwen3_5":
        yield Breach(ctx.key("mamba_ssm_cache_dtype"), "the recurrent state is kept in fp32")
