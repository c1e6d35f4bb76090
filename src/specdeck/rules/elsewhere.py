"""Traps that no rule can reveal, with the reason and with what keeps them off instead.

docs/traps.md lists them after the rules, so that a symptom someone searches for is found there either way.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trap:
    """One trap.

    Attributes:
        symptom: what a person sees, with the engine's own words where they are known.
        why: why a recipe, a checkpoint's files, this machine or a version do not show it beforehand.
        instead: what specdeck does about it, or what a person can do.
        evidence: public references.
    """

    symptom: str
    why: str
    instead: str
    evidence: tuple[str, ...]


TRAPS: tuple[Trap, ...] = (
    Trap(
        "`not enough values to unpack (expected 12, got 8)` when the candidate selector is compiled",
        "heads of the pull request only, before its compile tag; no release has it",
        "use a release from 0.28.0 (rule engine-too-old-for-dflash2)",
        ("vllm#52816",),
    ),
    Trap(
        "`index out of bounds: 0 <= tmp1 < 248320`, `vectorized gather kernel index out of bounds`",
        "seen with builds of the pull request, under load; no release has been reported",
        "use a release from 0.28.0 (rule engine-too-old-for-dflash2)",
        ("vllm#52816",),
    ),
    Trap(
        "`fatal error: curand.h: No such file or directory`, or exit code 127, while FlashInfer compiles a kernel",
        "headers of a CUDA toolkit; inside an image they cannot be looked at from outside",
        "install libcurand-dev of the same CUDA version, or flashinfer-cubin, which compiles nothing; set "
        "VLLM_USE_FLASHINFER_SAMPLER=0 to do without",
        ("syv-ai/qwen38-27b-rtx3090#12", "HammGsm/qwen38-27b-dflash2-h100 README"),
    ),
    Trap(
        "FlashInfer's bundled CCCL does not compile with nvcc 12 on compute capability 8.9",
        "as above",
        "flashinfer-cubin, or nvcc 13",
        ("flashinfer#4763",),
    ),
    Trap(
        "`KeyError: 'input_global_scale'`, `assert_size_stride`: a compile cache of another image or checkpoint",
        "what is in a cache directory does not say what it was made from",
        "`specdeck compose` gives every image, checkpoint and set of options a cache of its own",
        ("syv-ai/qwen38-27b-rtx3090 gotchas 5 and 15",),
    ),
    Trap(
        "no prefix hits at all with a drafter of mixed layer kinds, or with speculative decoding on a hybrid target",
        "fixed or open by build, not by release; the counters show it at run time",
        "every cell of a run keeps vllm:prefix_cache_hits and vllm:prefix_cache_queries",
        ("vllm#51250", "vllm#50457", "vllm#54360", "vllm#57032"),
    ),
    Trap(
        "accepted-token counts race with asynchronous scheduling: wrong text on shared prefixes",
        "a path of the V1 runner, against which there are rules v1-runner-silent and v1-runner-refused",
        "the V2 runner, which DFlash2 needs anyway",
        ("vllm#53919",),
    ),
    Trap(
        "acceptance falls and text is fine: hidden states captured before the hyper-connections are joined",
        "a mistake inside a model's code, in forks and patches",
        "expect.acceptance_length of a recipe, which a run is held to",
        ("vllm#52883",),
    ),
    Trap(
        "a greedy drafter's text differs from the greedy target's at some token",
        "ties between logits broken by batch shape, not a wrong acceptance; the target alone differs from itself too",
        "docs/method.md tells the share of equal texts as a figure of its own; a difference is not counted as an error",
        ("vllm#54928", "vllm#42960", "sglang#38009"),
    ),
    Trap(
        "MTP repeats itself",
        "the thread is open and no cause is established",
        "`expect` and a look at the texts of a run",
        ("vllm#52475",),
    ),
    Trap(
        "memory of CUDA graphs with the V2 runner is not in the profile, and the first long prompt runs out",
        "its size is only known after capture",
        "`specdeck plan` counts it as `CUDA graphs, outside torch`, with a range",
        ("syv-ai/qwen38-27b-rtx3090 gotcha 18",),
    ),
    Trap(
        "5 to 7 % slower with CPU idle states on (GB10)",
        "a setting of the host's firmware and kernel",
        "both sides of a comparison run on the same host; switch idle states off for absolute figures",
        ("MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#28",),
    ),
    Trap(
        "100 % acceptance at every draft length from a file of tokens",
        "whether a text repeats what the drafter was given shows in the answers, not in a recipe",
        "prompt sets of this repository are text with categories; a run reports acceptance by category",
        ("ninfer-3090 PR#86",),
    ),
    Trap(
        "the first runs 30 to 50 % low; a second arm answered by the first arm's server; 200 from an engine that loads",
        "they happen while a benchmark runs",
        "warm-up that is never measured, a free port for each server, and a proof of what it drafts with",
        ("syv-ai/qwen38-27b-rtx3090 gotcha 8", "HammGsm/qwen38-27b-dflash2-h100 README"),
    ),
    Trap(
        "acceptance from idle log windows, tokens from counted stream chunks",
        "ways to measure, not settings",
        "docs/method.md: counters before and after, tokens from usage",
        ("noonghunna/club-3090 BENCHMARKS",),
    ),
    Trap(
        "thinking on or off and another chat template change acceptance",
        "they are part of a request",
        "every arm is sent the same enable_thinking, and two runs must share recipe and plan to be compared",
        ("z-lab/dflash#133", "vllm#54928"),
    ),
    Trap(
        "a restarting container hides crashes; `refs/main` moves below an overlay; HTTP 400 for thinking_token_budget",
        "they happen after a start",
        "compose files restart nothing unless asked; counters that fall make a cell invalid; an overlay is rebuilt "
        "when its source's revision moves; leave the budget out on the V2 runner",
        ("vllm#52883", "syv-ai/qwen38-27b-rtx3090 gotcha 18"),
    ),
    Trap(
        "lm-eval's stop strings cut reasoning and count right answers as wrong",
        "a setting of the evaluation, not of a recipe",
        "let answers end by themselves and extract them afterwards",
        ("adrienbrault, Flash-Next run R509",),
    ),
    Trap(
        "`DFlash2 selector requires a dense FP16/BF16/FP32 target lm_head`, `Invalid thread config`, CHECK_INPUT",
        "other engines (SGLang); specdeck starts vLLM only",
        "see the references",
        ("sglang#35496", "sglang#37946"),
    ),
)  # fmt: skip
