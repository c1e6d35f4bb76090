"""The real argument parser of vLLM reads every option of a recipe as it was meant."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from specdeck.engine.command import build_command
from specdeck.engine.environment import engine_python
from specdeck.paths import repo_root
from specdeck.recipe import load_recipe
from specdeck.recipe.load import parse_recipe, plain
from specdeck.recipe.models import Serve

if TYPE_CHECKING:
    from pathlib import Path

PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
found = vars(make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:]))
print("parsed" + json.dumps(found, default=str))
"""
VALUES: dict[str, Any] = {
    "served_model_name": "some/name",
    "dtype": "bfloat16",
    "quantization": "fp8",
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 3,
    "enable_expert_parallel": True,
    "max_model_len": 4096,
    "max_num_seqs": 5,
    "max_num_batched_tokens": 777,
    "gpu_memory_utilization": 0.81,
    "kv_cache_dtype": "fp8_e4m3",
    "kv_cache_memory_bytes": 123456789,
    "block_size": 48,
    "enable_prefix_caching": False,
    "mamba_cache_mode": "align",
    "mamba_ssm_cache_dtype": "float16",
    "attention_backend": "FLASH_ATTN",
    "moe_backend": "marlin",
    "disable_custom_all_reduce": True,
    "enforce_eager": False,
    "seed": 11,
    "chat_template": "--odd name.jinja",
    "generation_config": "vllm",
    "reasoning_parser": "qwen3",
    "tool_call_parser": "qwen3_coder",
    "enable_auto_tool_choice": True,
    "limit_mm_per_prompt": {"image": 0, "video": 2},
    "language_model_only": True,
    "hf_overrides": {"text_config": {"rope": None}},
    "trust_remote_code": False,
    "per_request_spec_decode_metrics": "summary",
}
EXTRA = {"max_num_queued_reqs": 9, "kv-cache-metrics": True, "kv_cache_dtype_skip_layers": ["1", "3"]}


def parsed(serve: dict[str, Any], arm: str) -> dict[str, Any]:
    root = repo_root()
    data = plain(load_recipe("tiny-next-cpu")) | {"serve": serve}
    recipe = parse_recipe(data)
    python: Path = engine_python(recipe, root, python=None, progress=print)
    command = build_command(recipe, arm, python=python, host="127.0.0.1", port=8123, root=root)
    done = subprocess.run(
        [str(python), "-c", PARSE, *command.argv[3:]],
        env=command.process_env({}),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("parsed"))
    found: dict[str, Any] = json.loads(line.removeprefix("parsed"))
    return found


def test_every_option_of_a_recipe_reaches_vllm_with_its_value() -> None:
    assert set(VALUES) == set(Serve.model_fields) - {"env", "extra"}, "a new option needs a value here"
    found = parsed(VALUES | {"extra": EXTRA}, "dflash2")
    seen = {key: found[key] for key in VALUES}
    seen["limit_mm_per_prompt"] = json.loads(json.dumps(seen["limit_mm_per_prompt"]))
    assert seen == VALUES | {"served_model_name": ["some/name"], "kv_cache_memory_bytes": 123456789}
    assert (found["max_num_queued_reqs"], found["kv_cache_metrics"], found["kv_cache_dtype_skip_layers"]) == (
        9,
        True,
        ["1", "3"],
    )
    assert (found["host"], found["port"]) == ("127.0.0.1", 8123)
    assert found["model"] == str(repo_root() / "models/tiny-next/target")
    speculative = found["speculative_config"]
    assert (speculative["method"], speculative["num_speculative_tokens"]) == ("dflash", 7)
