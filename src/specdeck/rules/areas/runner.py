"""The model runner: what silently or loudly turns a DFlash2 arm into something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity, need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.rules.context import Context

AREA = Area("runner", "Model runner and method selection")
FORCES_V1 = ("0", "false", "no", "off")


def _v1(ctx: Context) -> bool:
    return ctx.serve.env.get("VLLM_USE_V2_MODEL_RUNNER", "1").lower() in FORCES_V1


@AREA.rule(
    "v1-runner-silent",
    Severity.ERROR,
    versions=">=0.28,<0.29",
    reason="0.28 reads VLLM_USE_V2_MODEL_RUNNER before it looks at the drafter and has no reject list: the V1 runner "
    "drafts as the older DFlash, without the candidate selector and without an error.",
    fix="remove VLLM_USE_V2_MODEL_RUNNER",
    evidence=("vllm#52816", "noonghunna/club-3090#1060", "noonghunna/club-3090#1064"),
)
def _silent(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and _v1(ctx):
        yield Breach(ctx.key("env", "VLLM_USE_V2_MODEL_RUNNER"), "forces the V1 runner")


@AREA.rule(
    "v1-runner-refused",
    Severity.ERROR,
    versions=">=0.29",
    reason="The V1 runner refuses DFlash2 (Model Runner V1 does not support: DFlash candidate-head drafts).",
    fix="remove VLLM_USE_V2_MODEL_RUNNER",
    evidence=("vLLM 0.32.0, vllm/config/vllm.py",),
)
def _refused(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and _v1(ctx):
        yield Breach(ctx.key("env", "VLLM_USE_V2_MODEL_RUNNER"), "forces the V1 runner")


@AREA.rule(
    "triton-missing",
    Severity.ERROR,
    versions=">=0.29",
    reason="Without Triton vLLM falls back to the V1 runner, which refuses DFlash2.",
    fix="install Triton in the engine's environment",
    evidence=("vLLM 0.32.0, vllm/config/vllm.py",),
    needs=("host.packages",),
)
def _triton(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.cuda and "triton" not in need(ctx.host.packages, "host.packages"):
        yield Breach(("engine",), "the engine's environment has no Triton")


@AREA.rule(
    "flashinfer-missing",
    Severity.WARNING,
    reason="Without FlashInfer (and its cubin package or nvcc with ninja) the candidate selector uses torch.topk at "
    "about half the speed, and says so in one log line.",
    fix="install flashinfer-python and flashinfer-cubin in the engine's environment",
    evidence=("syv-ai/qwen38-27b-rtx3090#35",),
    needs=("host.packages",),
)
def _flashinfer(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.cuda and "flashinfer-python" not in need(ctx.host.packages, "host.packages"):
        yield Breach(("engine",), "the engine's environment has no FlashInfer")


@AREA.rule(
    "flashinfer-slow-version",
    Severity.WARNING,
    reason="FlashInfer 0.6.18 dropped decode at 30K context from 143 to 26.5 tok/s on an RTX 5090.",
    fix="install flashinfer-python 0.6.16.post3, or the version your vLLM pins",
    evidence=("adrienbrault/qwen3.8-27b-rtx5090",),
    needs=("host.packages",),
)
def _slow(ctx: Context) -> Iterator[Breach]:
    if ctx.cuda and ctx.recipe.hardware.class_ == "rtx5090":
        found = need(ctx.host.packages, "host.packages").get("flashinfer-python", "")
        if found.startswith("0.6.18"):
            yield Breach(("engine",), f"FlashInfer {found} is installed")


@AREA.rule(
    "dflash-in-mtp-path",
    Severity.WARNING,
    reason="vLLM guesses the method from the path where it is not stated: a checkpoint below a folder called "
    "…dflash… then loads as DFlash ('Qwen3_5Config' object has no attribute 'vocab_size'). specdeck states the method; "
    "other commands over the same folder may not.",
    fix="give the folder a neutral name",
    evidence=("vLLM 0.32.0, config/speculative.py", "syv-ai/qwen38-27b-rtx3090 gotcha 17"),
)
def _path(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "mtp" and "dflash" in ctx.recipe.target.where.lower():
        yield Breach(("target",), f"{ctx.recipe.target.where!r} contains 'dflash' and is served with MTP")


@AREA.rule(
    "dflash-mtp-buffer",
    Severity.ERROR,
    versions=">=0.28,<0.32",
    reason="The V2 runner slices get_mtp_target_hidden_states() without a guard: profile_run dies with 'NoneType' "
    "object is not subscriptable when a target with that hook drafts with DFlash.",
    fix="use vLLM >= 0.32",
    evidence=("vLLM 0.32.0, v1/worker/gpu/spec_decode/utils.py",),
    needs=("target.architecture",),
)
def _buffer(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.family() == "qwen4_exp":
        yield Breach(ctx.arm_key("method"), "this target has the MTP buffer hook")


@AREA.rule(
    "head-dtype-quantized",
    Severity.ERROR,
    reason="hf_overrides.head_dtype is only supported for an unquantised lm_head; 0.28 refuses it for any quantised "
    "model.",
    fix="remove head_dtype from hf_overrides",
    evidence=("vLLM 0.28.0 and 0.32.0, model_executor/layers/logits_processor.py",),
    needs=("target.config",),
)
def _head_dtype(ctx: Context) -> Iterator[Breach]:
    if "head_dtype" not in (ctx.serve.hf_overrides or {}):
        return
    kind = need(ctx.target.quantization, "target.config")
    spared = any("lm_head" in name for name in ctx.target.unquantized_modules or [])
    if kind != "none" and (not spared or any(version.release[:2] == (0, 28) for version in ctx.versions)):
        yield Breach(ctx.key("hf_overrides", "head_dtype"), f"the target is quantised ({kind})")


@AREA.rule(
    "scheduler-not-async",
    Severity.WARNING,
    reason="A custom scheduler class that is not an AsyncScheduler disables DFlash (11.3 tok/s was measured).",
    fix="derive the class from vLLM's AsyncScheduler, or remove scheduler_cls",
    evidence=("jnardiello/glm-5.3-flash-dflash2-4x-dgx-spark docs/production-recipe.md",),
)
def _scheduler(ctx: Context) -> Iterator[Breach]:
    if ctx.method == "dflash" and ctx.option("scheduler_cls"):
        yield Breach(ctx.extra_key("scheduler_cls"), "a scheduler class of its own")


@AREA.rule(
    "draft-schedule-async",
    Severity.WARNING,
    reason="With asynchronous scheduling the draft length stays as it is: num_speculative_tokens_per_batch_size then "
    "changes nothing. Where it did work it gained 2 %.",
    fix="write extra: {async_scheduling: false} for this arm, or remove num_speculative_tokens_per_batch_size",
    evidence=("syv-ai/qwen38-27b-rtx3090 gotchas 18 and 21", "vllm#52883"),
)
def _schedule(ctx: Context) -> Iterator[Breach]:
    name = "num_speculative_tokens_per_batch_size"
    if ctx.cuda and name in ctx.arm.speculative and ctx.option("async_scheduling") is not False:
        yield Breach(ctx.arm_key("speculative", name), "a draft length by batch size with asynchronous scheduling")
