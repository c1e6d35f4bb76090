"""GLM-5.3-Flash (Glm5Next) and the GB10 machines it is often served on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("glm", "GLM-5.3 and GB10")
SPARSE_MLA = ("glm5_next", "glm_moe_dsa")


@AREA.rule(
    "glm-sparse-mla-capability",
    Severity.ERROR,
    versions=">=0.30",
    reason="No sparse-MLA attention backend of vLLM up to 0.33 accepts compute capability 8.0, 8.6 or 8.9, with or "
    "without a drafter.",
    fix="use a GPU of compute capability 9.0 or 12.x; on A100 only forks serve it (engine.fork)",
    evidence=("vllm#54059",),
    needs=("target.architecture", "host.compute_capability"),
)
def _capability(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.family() in SPARSE_MLA and ctx.sm()[0] < 9:
        major, minor = ctx.sm()
        yield Breach(("hardware", "class"), f"compute capability {major}.{minor} has no sparse-MLA backend")


@AREA.rule(
    "glm-dflash-interface",
    Severity.ERROR,
    versions=">=0.30,<0.32",
    reason="The target has no EAGLE3 interface before 0.32 (Model does not support EAGLE3 interface but "
    "aux_hidden_state_outputs was requested).",
    fix="use vLLM >= 0.33",
    evidence=("vllm#45319", "vllm#56983"),
    needs=("target.architecture",),
)
def _interface(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.family() == "glm5_next":
        yield Breach(ctx.arm_key("method"), "DFlash2 for GLM-5.3-Flash needs vLLM >= 0.32")


@AREA.rule(
    "glm-drafter-kv-group",
    Severity.ERROR,
    versions=">=0.32,<0.33",
    reason="The GLM KV planner does not group the drafter's sliding-window layers by themselves (page size is not "
    "divisible by the maximum page size and cannot be padded).",
    fix="use vLLM >= 0.33, whose planner was rewritten, or an image with the fix",
    evidence=("vllm#56983",),
    needs=("target.architecture",),
)
def _group(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.family() == "glm5_next":
        yield Breach(ctx.arm_key("method"), "0.32 cannot plan the drafter's KV cache")


@AREA.rule(
    "glm-drafter-kv-retest",
    Severity.WARNING,
    versions=">=0.33",
    reason="The KV planner was rewritten in 0.33; nobody has published that the drafter's sliding-window layers now "
    "plan with GLM-5.3-Flash.",
    fix="expect a refusal at start that names the page size; report what you see on the issue",
    evidence=("vllm#56983",),
    needs=("target.architecture",),
)
def _retest(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.family() == "glm5_next":
        yield Breach(ctx.arm_key("method"), "DFlash2 with GLM-5.3-Flash is not proven on vLLM's own 0.33")


@AREA.rule(
    "glm-full-drafter-missing",
    Severity.ERROR,
    reason="For the full GLM-5.3 a DFlash2 drafter exists only in community repositories, and none is published with "
    "acceptance figures.",
    fix="serve the arms none or mtp, or name a drafter you have tested",
    evidence=("sixteen-miles-labs#69", "wtdcode/vllm-backport#38"),
    needs=("target.architecture",),
)
def _full(ctx: Context) -> Iterator[Breach]:
    flash = ctx.recipe.drafter is not None and "glm-5.3-flash" in ctx.recipe.drafter.where.lower()
    if ctx.method == "dflash" and flash and ctx.family() == "glm_moe_dsa":
        yield Breach(("drafter",), "the drafter is that of GLM-5.3-Flash, not of GLM-5.3")


@AREA.rule(
    "glm-eager",
    Severity.WARNING,
    reason="Without CUDA graphs GLM-5.3-Flash on GB10 made 19.4 instead of 51.7 tok/s.",
    fix="remove enforce_eager",
    evidence=("tonyd2wild/GLM-5.3-Flash-NVFP4-1M-KV-4x-DGX-Spark#2",),
    needs=("target.architecture",),
)
def _eager(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.serve.enforce_eager and ctx.family() in SPARSE_MLA:
        yield Breach(ctx.key("enforce_eager"), "eager mode")


@AREA.rule(
    "glm-drafter-revision",
    Severity.WARNING,
    reason="Two revisions of the GLM-5.3-Flash drafter circulate; the wrong one halves acceptance.",
    fix="pin drafter.revision",
    evidence=("tonyd2wild#7", "incoai/GLM-5.3-Flash-DFlash2"),
)
def _revision(ctx: Context) -> Iterator[Breach]:
    drafter = ctx.recipe.drafter
    if ctx.method == "dflash" and drafter and not drafter.revision and "GLM-5.3-Flash-DFlash2" in drafter.where:
        yield Breach(("drafter", "revision"), "the drafter's revision is not pinned")


@AREA.rule(
    "gb10-utilization",
    Severity.ERROR,
    reason="On GB10 the API process shares the unified memory: from 0.89 the head node fails with NV_ERR_NO_MEMORY.",
    fix="write gpu_memory_utilization: 0.85 and a fixed kv_cache_memory_bytes",
    evidence=("jnardiello/glm-5.3-flash-dflash2-4x-dgx-spark",),
    stock=False,
)
def _utilization(ctx: Context) -> Iterator[Breach]:
    share = ctx.serve.gpu_memory_utilization or 0.92
    if ctx.recipe.hardware.class_ == "gb10" and share >= 0.89:
        yield Breach(ctx.key("gpu_memory_utilization"), f"{share:g} of the unified memory")


@AREA.rule(
    "gb10-long-context",
    Severity.WARNING,
    reason="The sparse indexer's top-k kernel dies on compute capability 12.1 above about 24K tokens of context; "
    "community images patch it.",
    fix="test a prompt above 24K tokens first, or use an image with a patched indexer",
    evidence=("tonyd2wild/GLM-5.3-Flash-NVFP4-1M-KV-4x-DGX-Spark", "jnardiello/glm-5.3-flash-dflash2-4x-dgx-spark"),
    needs=("target.architecture",),
)
def _long(ctx: Context) -> Iterator[Breach]:
    long = (ctx.serve.max_model_len or 2**20) > 24 * 1024
    if ctx.recipe.hardware.class_ == "gb10" and long and ctx.family() in SPARSE_MLA:
        yield Breach(ctx.key("max_model_len"), "contexts above 24K on GB10")


@AREA.rule(
    "gb10-mtp-reboot",
    Severity.NOTE,
    reason="A GB10 rebooted hard, twice of two, with MTP at 16K context under concurrency; the cause is not known.",
    fix="raise concurrency step by step, and save your work",
    evidence=("kubesimplify/website#262",),
    stock=False,
)
def _reboot(ctx: Context) -> Iterator[Breach]:
    if ctx.recipe.hardware.class_ == "gb10" and ctx.method == "mtp" and (ctx.serve.max_num_seqs or 2) > 1:
        yield Breach(ctx.arm_key("method"), "MTP with several sequences on GB10")


@AREA.rule(
    "gb10-async-scheduling",
    Severity.NOTE,
    reason="On GB10 with GLM-5.3-Flash and DFlash2, asynchronous scheduling cost 3 to 10 %.",
    fix="write extra: {async_scheduling: false}",
    evidence=("jnardiello/glm-5.3-flash-dflash2-4x-dgx-spark cluster.env",),
    needs=("target.architecture",),
)
def _async(ctx: Context) -> Iterator[Breach]:
    if ctx.recipe.hardware.class_ != "gb10" or ctx.method != "dflash" or ctx.option("async_scheduling") is False:
        return
    if ctx.family() == "glm5_next":
        yield Breach(ctx.key("extra"), "asynchronous scheduling is on")
