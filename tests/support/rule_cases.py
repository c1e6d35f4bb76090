"""For every rule a recipe that trips it, and the same recipe after a change that sets it right."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from specdeck.rules.facts import HostFacts

REV = "0123456789abcdef0123456789abcdef01234567"
Changes = dict[str, Any]
RECIPE: dict[str, Any] = {
    "name": "r",
    "title": "a recipe",
    "target": {
        "repo": "Qwen/Qwen3.8-27B-FP8",
        "revision": REV,
        "license": "apache-2.0",
        "architecture": "Qwen3_5ForConditionalGeneration",
    },
    "drafter": {
        "repo": "z-lab/Qwen3.8-27B-DFlash2",
        "revision": REV,
        "license": "apache-2.0",
        "architecture": "DFlash2DraftModel",
    },
    "engine": {
        "vllm": ">=0.32,<0.33",
        "runtime": "docker",
        "image": "vllm/vllm-openai:v0.32.0@sha256:" + "a" * 64,
    },
    "hardware": {"device": "cuda", "gpus": 2, "class": "a100-80g", "vram_gib": 80, "link": "nvlink"},
    "serve": {
        "tensor_parallel_size": 2,
        "max_model_len": 65536,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.9,
    },
    "arms": {
        "none": {},
        "mtp": {"method": "mtp", "num_speculative_tokens": 3},
        "dflash2": {"method": "dflash", "num_speculative_tokens": 7},
    },
}
# Numbers of the published config.json files that the rules read.
TARGET: dict[str, Any] = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]},
    "text_config": {
        "vocab_size": 248320,
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 262144,
    },
}
DRAFTER: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "is_causal": False,
    "vocab_size": 248320,
    "hidden_size": 5120,
    "num_attention_heads": 32,
    "max_position_embeddings": 262144,
    "dflash_config": {
        "block_size": 8,
        "mask_token_id": 248070,
        "target_layer_ids": [5, 19, 33, 47, 61],
        "conv_group_size": 16,
    },
}
# A Qwen4Exp text model whose automatic block sizes on two GPUs are those that were published: 1616 to 1648.
FLASH_NEXT: Changes = {
    "architectures": ["Qwen4ExpForConditionalGeneration"],
    "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    "text_config.num_key_value_heads": 2,
    "text_config.indexer_compress_ratio": 4,
    "text_config.linear_num_key_heads": 16,
    "text_config.linear_num_value_heads": 48,
    "text_config.linear_key_head_dim": 128,
    "text_config.linear_value_head_dim": 128,
    "text_config.linear_conv_kernel_dim": 4,
    "text_config.mamba_ssm_dtype": "float32",
}
GLM: Changes = {"architectures": ["Glm5NextForConditionalGeneration"]}
FULL: Changes = {"architectures": ["GlmMoeDsaForCausalLM"]}
HOST = HostFacts(
    driver="580.95.05",
    capabilities=((8, 0), (8, 0)),
    nvlink=False,
    used_gib=(0.3, 0.3),
    packages={"vllm": "0.32.0", "triton": "3.6.0", "flashinfer-python": "0.7.2"},
)


def host(**changes: Any) -> HostFacts:
    """Return the good machine with changes."""
    return replace(HOST, **changes)


@dataclass(frozen=True)
class Case:
    """Changes to the recipe, to both config.json files and to the machine; `right` is applied on top of `wrong`."""

    wrong: Changes = field(default_factory=dict)
    right: Changes = field(default_factory=dict)
    arm: str = "dflash2"
    right_arm: str | None = None
    target: Changes = field(default_factory=dict)
    drafter: Changes = field(default_factory=dict)
    target_right: Changes = field(default_factory=dict)
    drafter_right: Changes = field(default_factory=dict)
    host: HostFacts = HOST
    host_right: HostFacts | None = None
    files: frozenset[str] = frozenset({"config.json", "tokenizer.json"})
    files_right: frozenset[str] | None = None


OLD, NEW, V31, V29 = ">=0.28,<0.29", ">=0.33,<0.34", ">=0.31,<0.32", ">=0.29,<0.30"
IMAGE = {"engine.image": None}
GB10 = {"hardware.class": "gb10", "hardware.link": "network", "hardware.nodes": 2, "hardware.vram_gib": 128}
V1 = {"serve.env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}
PREFIX = {"serve.enable_prefix_caching": True}


def extra(name: str, value: Any, **more: Any) -> Changes:
    """Return changes that set an option under `serve.extra`."""
    return {"serve.extra": {name: value}} | more


NO_EXTRA: Changes = {"serve.extra": {}}
CASES: dict[str, Case] = {
    # engine
    "engine-no-version": Case({"engine.vllm": "<0.5,>0.6", **IMAGE}, {"engine.vllm": "==0.32.0"}),
    "engine-image-version": Case({"engine.image": "vllm/vllm-openai:v0.31.0"}, {"engine.image": "a/b:v0.32.0"}),
    "engine-image-moves": Case({"engine.image": "a/b:latest-sm80"}, {"engine.image": "a/b:v0.32.0"}),
    "engine-image-unpinned": Case({"engine.image": "a/b:v0.32.0"}, {"engine.image": "a/b@sha256:" + "0" * 64}),
    "engine-fork": Case(
        {"engine.fork": {"repo": "a/b", "methods": ["none", "dflash"], "source": "s"}}, {"engine.fork": None}
    ),
    "fork-method-unproven": Case(
        {"engine.fork": {"repo": "a/b", "methods": ["none"], "source": "s"}},
        {"engine.fork": {"repo": "a/b", "methods": ["none", "dflash"], "source": "s"}},
    ),
    "engine-too-old-for-dflash2": Case({"engine.vllm": ">=0.27,<0.29", **IMAGE}, arm="dflash2", right_arm="mtp"),
    "engine-too-old-for-target": Case(
        {"engine.vllm": ">=0.28,<0.30", **IMAGE}, {"engine.vllm": V29}, target=FLASH_NEXT
    ),
    "cpu-dflash2-needs-interpreter": Case(
        {"hardware": {"device": "cpu", "class": "x86-64"}, "serve": {}},
        {"engine": {"vllm": "==0.32.0", "runtime": "local", "environment": "cpu"}},
    ),
    "cpu-head-dim": Case(
        {"hardware": {"device": "cpu", "class": "x86-64"}, "serve": {}},
        target={"text_config.head_dim": 32},
        target_right={"text_config.head_dim": 64},
    ),
    # positions
    "drafter-positions": Case({"serve.max_model_len": 262145}, {"serve.max_model_len": 262144}),
    "drafter-positions-rope": Case(
        {"serve.max_model_len": 300000, "engine.vllm": NEW, **IMAGE},
        drafter={"rope_parameters": {"rope_type": "longrope"}},
        drafter_right={"rope_parameters": {"rope_type": "default"}},
    ),
    "drafter-overlay-not-needed": Case(
        {"engine.vllm": NEW, **IMAGE, "overlays": {"drafter": "positions-512k"}}, {"overlays": {}}
    ),
    "target-positions": Case(
        {"serve.max_model_len": 524288}, {"overlays": {"target": "yarn-512k"}}, arm="none"
    ),
    # drafter
    "drafter-quantized": Case(
        {"engine.vllm": OLD, **IMAGE},
        drafter={"quantization_config": {"quant_method": "fp8"}},
        drafter_right={"quantization_config": None},
    ),
    "draft-length-over-block": Case(
        {"arms.dflash2.num_speculative_tokens": 8}, {"arms.dflash2.num_speculative_tokens": 7}
    ),
    "drafter-vocabulary": Case(drafter={"vocab_size": 151936}, drafter_right={"vocab_size": 248320}),
    "drafter-hidden-size": Case(drafter={"hidden_size": 2560}, drafter_right={"target_hidden_size": 5120}),
    "drafter-taps-range": Case(
        drafter={"dflash_config.target_layer_ids": [5, 64]}, drafter_right={"dflash_config.target_layer_ids": [5, 63]}
    ),
    "drafter-taps-published": Case(
        drafter={"dflash_config.target_layer_ids": [6, 20, 34, 48, 62]},
        drafter_right={"dflash_config.target_layer_ids": [5, 19, 33, 47, 61]},
    ),
    "drafter-is-causal": Case(drafter={"is_causal": None}, drafter_right={"is_causal": False}),
    "drafter-sample-from-anchor": Case(
        drafter={"dflash_config.sample_from_anchor": True}, drafter_right={"dflash_config.sample_from_anchor": False}
    ),
    "drafter-architecture": Case(
        drafter={"architectures": ["DSparkDraftModel"]}, drafter_right={"architectures": ["DFlashDraftModel"]}
    ),
    "drafter-mask-token": Case(
        drafter={"dflash_config.mask_token_id": 248320}, drafter_right={"dflash_config.mask_token_id": 248319}
    ),
    "drafter-conv-groups": Case(
        drafter={"dflash_config.conv_group_size": 24}, drafter_right={"dflash_config.conv_group_size": 32}
    ),
    "draft-head-quantization": Case(
        {"engine.vllm": NEW, **IMAGE, "arms.dflash2.speculative": {"draft_lm_head_quantization": "fp8"}},
        {"arms.dflash2.speculative": {}},
    ),
    # runner
    "v1-runner-silent": Case({"engine.vllm": OLD, **IMAGE, **V1}, {"serve.env": {}}),
    "v1-runner-refused": Case(V1, {"serve.env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}),
    "triton-missing": Case(host=host(packages={"vllm": "0.32.0"}), host_right=HOST),
    "flashinfer-missing": Case(host=host(packages={"triton": "3.6"}), host_right=HOST),
    "flashinfer-slow-version": Case(
        {"hardware.class": "rtx5090"}, host=host(packages={"flashinfer-python": "0.6.18"}), host_right=HOST
    ),
    "dflash-in-mtp-path": Case(
        {"target": {"path": "/models/27b-dflash2-tier/target"}}, {"target": {"path": "/models/27b/target"}}, arm="mtp"
    ),
    "dflash-mtp-buffer": Case({"engine.vllm": V31, **IMAGE}, arm="dflash2", right_arm="mtp", target=FLASH_NEXT),
    "head-dtype-quantized": Case(
        {"serve.hf_overrides": {"head_dtype": "float32"}},
        target={"quantization_config": {"quant_method": "modelopt"}},
        target_right={"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}},
    ),
    "draft-schedule-async": Case(
        {"arms.dflash2.speculative": {"num_speculative_tokens_per_batch_size": [[1, 4, 7], [5, 8, 3]]}},
        extra("async_scheduling", False),
    ),
    "scheduler-not-async": Case(extra("scheduler_cls", "mine.Scheduler"), NO_EXTRA),
    # attention
    "fp8-kv-flash-attn": Case(
        {"serve.kv_cache_dtype": "fp8", "serve.attention_backend": "FLASH_ATTN"}, {"serve.attention_backend": None}
    ),
    "fp8-kv-ampere": Case({"serve.kv_cache_dtype": "fp8_e4m3"}, {"serve.kv_cache_dtype": "auto"}),
    "fp8-kv-quality": Case({"serve.kv_cache_dtype": "fp8"}, {"serve.kv_cache_dtype": None}),
    "heads-per-gpu": Case(
        {"hardware.gpus": 16, "serve.tensor_parallel_size": 16}, {"serve.tensor_parallel_size": 8}, arm="none"
    ),
    "drafter-heads-per-gpu": Case(
        {"hardware.gpus": 3, "serve.tensor_parallel_size": 3},
        {"arms.dflash2.speculative": {"draft_tensor_parallel_size": 1}},
    ),
    # caching
    "kv-connector-hybrid": Case(
        extra("kv_transfer_config", {"kv_connector": "LMCacheConnectorV1"}),
        extra("kv_transfer_config", {"kv_connector": "OffloadingConnector"}),
    ),
    "kv-connector-corrupts": Case(
        extra("kv_transfer_config", {"kv_connector": "MooncakeStoreConnector"}),
        extra("kv-transfer-config", {"kv_connector": "NixlConnector"}),
    ),
    "mtp-prefix-cache-hybrid": Case(PREFIX, {"arms.mtp.serve": {"enable_prefix_caching": False}}, arm="mtp"),
    "mtp-pipeline-prefix-cache": Case(
        {"hardware.gpus": 4, "serve.pipeline_parallel_size": 2}, {"serve.enable_prefix_caching": False}, arm="mtp"
    ),
    "prefix-cache-whole-blocks": Case(PREFIX, {"serve.enable_prefix_caching": False}),
    "eagle-block-drop": Case(PREFIX, {"arms.dflash2.speculative": {"disable_eagle_block_drop": True}}),
    "prefix-match-unit-overridden": Case(extra("prefix-match-unit", 16), NO_EXTRA),
    "fork-prefix-cache-option": Case(extra("enable_mamba_fine_grained_prefix_cache", True), NO_EXTRA),
    "gdn-illegal-access": Case(PREFIX, {"arms.dflash2.num_speculative_tokens": 4}),
    "full-graphs-prefix-cache": Case(
        extra("compilation_config", {"cudagraph_mode": "FULL"}, **PREFIX),
        extra("compilation_config", {"cudagraph_mode": "PIECEWISE"}),
    ),
    "state-cache-precision": Case(
        {"hardware.class": "h100-80g"}, {"serve.mamba_ssm_cache_dtype": "float16"},
        host=host(capabilities=((9, 0), (9, 0))),
    ),
    # flash-next
    "qsa-ring-capacity": Case({}, {"arms.dflash2.serve": {"block_size": 1680}}, target=FLASH_NEXT),
    "qsa-kv-bf16-only": Case(
        {"engine.vllm": V29, **IMAGE, "serve.kv_cache_dtype": "fp8"}, {"serve.kv_cache_dtype": None}, target=FLASH_NEXT
    ),
    "qsa-fp8-kv-old-gpu": Case({"serve.kv_cache_dtype": "fp8"}, {"serve.kv_cache_dtype": None}, target=FLASH_NEXT),
    "qsa-kv-format": Case(
        {"serve.kv_cache_dtype": "fp8_e5m2"}, {"serve.kv_cache_dtype": "fp8_e4m3"}, target=FLASH_NEXT
    ),
    "flash-next-method-allowlist": Case({}, {"engine.patches": ["qwen4exp-dflash-method"]}, target=FLASH_NEXT),
    "flash-next-no-capture": Case({}, {"engine.patches": ["qwen4exp-aux-hidden-states"]}, target=FLASH_NEXT),
    "flash-next-drafter-unconfirmed": Case({}, {"drafter": {"path": "/models/drafter"}}, target=FLASH_NEXT),
    "flash-next-pipeline": Case(
        {"hardware.gpus": 4, "serve.pipeline_parallel_size": 2}, {"serve.pipeline_parallel_size": 1}, target=FLASH_NEXT
    ),
    "flash-next-dbo": Case(extra("enable_dbo", True), extra("enable_dbo", False), target=FLASH_NEXT),
    "flash-next-table-on-gpu": Case(
        extra("engram_config", {"cpu_offload": False}), extra("engram_config", {"cpu_offload": True}), target=FLASH_NEXT
    ),
    "flash-next-async-mtp": Case(
        extra("async_scheduling", True), extra("async_scheduling", False), arm="mtp", target=FLASH_NEXT
    ),
    "flash-next-sm86": Case(
        {"hardware.class": "rtx3090"},
        {"hardware.class": "a100-80g"},
        arm="mtp",
        target=FLASH_NEXT,
        host=host(capabilities=((8, 6), (8, 6))),
        host_right=host(capabilities=((8, 0), (8, 0))),
    ),
    # glm
    "glm-sparse-mla-capability": Case(
        {}, {"hardware.class": "h100-80g"}, arm="none", target=GLM, host_right=host(capabilities=((9, 0), (9, 0)))
    ),
    "glm-dflash-interface": Case({"engine.vllm": V31, **IMAGE}, target=GLM, right_arm="mtp"),
    "glm-drafter-kv-group": Case(target=GLM, right_arm="mtp"),
    "glm-drafter-kv-retest": Case({"engine.vllm": NEW, **IMAGE}, target=GLM, right_arm="mtp"),
    "glm-full-drafter-missing": Case(
        {"drafter.repo": "incoai/GLM-5.3-Flash-DFlash2"}, {"drafter.repo": "somebody/GLM-5.3-DFlash2"}, target=FULL
    ),
    "glm-eager": Case({"serve.enforce_eager": True}, {"serve.enforce_eager": False}, target=GLM),
    "glm-drafter-revision": Case(
        {"drafter.repo": "incoai/GLM-5.3-Flash-DFlash2", "drafter.revision": None}, {"drafter.revision": REV}
    ),
    "gb10-utilization": Case({**GB10, "serve.gpu_memory_utilization": 0.89}, {"serve.gpu_memory_utilization": 0.85}),
    "gb10-long-context": Case({**GB10}, {"serve.max_model_len": 24576}, target=GLM),
    "gb10-mtp-reboot": Case({**GB10}, {"serve.max_num_seqs": 1}, arm="mtp"),
    "gb10-async-scheduling": Case({**GB10}, extra("async_scheduling", False), target=GLM),
    # moe
    "moe-fp8-old-gpu": Case(
        {}, {"serve.moe_backend": "marlin"}, arm="none", target=FLASH_NEXT | {"quantization_config.quant_method": "fp8"}
    ),
    "moe-marlin-unquantized-mtp": Case(
        {"serve.moe_backend": "marlin"}, arm="mtp",
        target=FLASH_NEXT | {"quantization_config.ignore": ["re:mtp.*"]},
        target_right={"quantization_config.ignore": ["lm_head"]},
    ),
    # parallel
    "all-reduce-consumer-blackwell": Case(
        {"hardware.class": "rtx5090"}, {"serve.disable_custom_all_reduce": True},
        host=host(capabilities=((12, 0), (12, 0))),
    ),
    "all-reduce-3090-nvlink": Case({"hardware.class": "rtx3090"}, {"serve.disable_custom_all_reduce": True}),
    "all-reduce-patched-p2p": Case(
        {"hardware.class": "rtx3090", "hardware.link": "pcie"}, {"serve.disable_custom_all_reduce": True}
    ),
    "all-reduce-driver": Case({"hardware.link": "pcie"}, host=host(driver="595.91.07"), host_right=HOST),
    "expandable-segments-all-reduce": Case(
        {"serve.env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        {"serve.env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}},
    ),
    "host-other-gpu": Case(host=host(capabilities=((8, 0), (8, 6))), host_right=HOST),
    "host-too-few-gpus": Case(host=host(capabilities=((8, 0),)), host_right=HOST),
    "host-gpu-busy": Case(host=host(used_gib=(0.2, 7.5)), host_right=HOST),
    # memory
    "draft-batch-tokens": Case(
        {"serve.max_num_seqs": 257, "serve.max_num_batched_tokens": None}, {"serve.max_num_seqs": 256}
    ),
    "batched-tokens-unset": Case({"serve.max_num_batched_tokens": None}, {"serve.max_num_batched_tokens": 4096}),
    "utilization-prompt-logprobs": Case(
        {"serve.gpu_memory_utilization": 0.94}, {"serve.gpu_memory_utilization": 0.92}, arm="none"
    ),
    "utilization-dflash2-24g": Case({"hardware.vram_gib": 24}, {"serve.gpu_memory_utilization": 0.8}),
    "utilization-mtp-growth": Case(
        {"serve.gpu_memory_utilization": 0.93}, {"serve.gpu_memory_utilization": 0.9}, arm="mtp"
    ),
    "graphs-1x32g": Case(
        {"hardware.gpus": 1, "hardware.vram_gib": 32, "serve.tensor_parallel_size": 1,
         "target.repo": "unsloth/Qwen3.8-27B-NVFP4"},
        {"serve.language_model_only": True},
    ),
    "mtp-1x24g": Case(
        {"hardware.gpus": 1, "hardware.vram_gib": 24, "serve.tensor_parallel_size": 1}, {"hardware.vram_gib": 32},
        arm="mtp",
    ),
    "weights-over-memory": Case({"target.size_bytes": 200 * 2**30}, {"target.size_bytes": 100 * 2**30}),
    # environment
    "env-ple-removed": Case({"serve.env": {"VLLM_PLE_CPU_OFFLOAD": "1"}}, {"serve.env": {}}),
    "env-ple-too-early": Case(
        {"engine.vllm": V29, **IMAGE, "serve.env": {"VLLM_PLE_CPU_OFFLOAD": "1"}}, {"serve.env": {}}
    ),
    "engram-config-too-early": Case(
        extra("engram_config", {"cpu_offload": True}, **{"engine.vllm": V29, **IMAGE}), NO_EXTRA
    ),
    "env-blank": Case(
        {"serve.env": {"VLLM_MARLIN_INPUT_DTYPE": ""}}, {"serve.env": {"VLLM_MARLIN_INPUT_DTYPE": "int8"}}
    ),
    # serving
    "stats-disabled": Case(extra("disable_log_stats", True), extra("disable_log_stats", False)),
    "parser-of-another-family": Case({"serve.reasoning_parser": "glm45"}, {"serve.reasoning_parser": "qwen3"}),
    "tool-choice-without-parser": Case(
        {"serve.enable_auto_tool_choice": True}, {"serve.tool_call_parser": "qwen3_coder"}
    ),
    "tokenizer-missing": Case(
        {"serve.reasoning_parser": "qwen3"}, files=frozenset({"config.json"}),
        files_right=frozenset({"config.json", "tokenizer.json"}),
    ),
    "synthetic-rejection": Case(
        {"arms.dflash2.speculative": {"rejection_sample_method": "synthetic"}},
        {"arms.dflash2.speculative": {"rejection_sample_method": "block"}},
    ),
    "dummy-weights": Case(extra("load_format", "dummy"), extra("load_format", "auto")),
    # benching
    "random-prompts": Case({"prompts": "random-1024"}, {"prompts": "core-10"}),
    "warmup-is-measured": Case({"warmup_prompts": "core-10"}, {"warmup_prompts": "warmup"}),
    "long-drafts-large-batch": Case({"serve.max_num_seqs": 16}, {"serve.max_num_seqs": 15}),
    "hopper-draft-length": Case(
        {"hardware.class": "h200"}, {"arms.dflash2.num_speculative_tokens": 5},
        host=host(capabilities=((9, 0), (9, 0))),
    ),
    # checkpoints
    "checkpoint-unpinned": Case({"drafter.revision": None}, {"drafter.revision": REV}),
    "checkpoint-unhashed": Case(
        {"drafter": {"path": "/models/d"}},
        {"drafter": {"path": "/models/d", "sha256": {"model.safetensors": "0" * 64}}},
    ),
    "config-value-type": Case(
        target={"text_config.hidden_size": "5120; rm -rf"}, target_right={"text_config.hidden_size": 5120}
    ),
    "rotated-target": Case({"target.repo": "Freaksterz/Qwen3.8-27B-SmoothQuant"}, {"target.repo": "Qwen/Qwen3.8-27B"}),
    "avuja-autoround-mtp": Case({"target.repo": "Avuja/Qwen3.8-27B-int4-AutoRound"}, arm="mtp", right_arm="none"),
    "nvidia-flash-next-mtp": Case({"target.repo": "nvidia/Qwen3.8-Flash-Next-NVFP4"}, arm="mtp", right_arm="none"),
    "libertai-glm-wrong-tokens": Case(
        {"target.repo": "LibertAIDAI/GLM-5.3-Flash-NVFP4"}, {"target.repo": "RedHatAI/GLM-5.3-Flash-NVFP4"}
    ),
    "nvidia-glm-mtp": Case({"target.repo": "nvidia/GLM-5.3-Flash-NVFP4"}, arm="mtp", right_arm="none"),
    "glm-full-fp8-mtp": Case({"target.repo": "zai-org/GLM-5.3"}, arm="mtp", right_arm="none", target=FULL),
    # licence
    "licence-restricted": Case({"drafter.license": "cc-by-nc-nd-4.0"}, {"drafter.license": "apache-2.0"}),
    "licence-unstated": Case({"target.license": None}, {"target.license": "mit"}),
}  # fmt: skip
