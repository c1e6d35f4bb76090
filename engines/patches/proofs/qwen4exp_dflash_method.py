"""Proves that Qwen4Exp takes a DFlash drafter and all it took before, and refuses others by naming what it takes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from statements import method, read, run

TAKEN = ("mtp", "ngram", "ngram_gpu", "dflash")
names: dict[str, Any] = {
    "Qwen3_5ForConditionalGenerationConfig": SimpleNamespace(verify_and_update_config=lambda _config: None),
    "current_platform": SimpleNamespace(is_cuda=lambda: True, is_cuda_alike=lambda: True),
    "_strip_qwen4_exp_mrope": lambda _config: None,
}
run(
    [
        method(
            read("vllm/model_executor/models/config.py"),
            "Qwen4ExpForConditionalGenerationConfig",
            "verify_and_update_config",
        )
    ],
    names,
)


def verify(drafting: str | None, **model: Any) -> None:
    """Check a Qwen4Exp with a drafting method."""
    text = SimpleNamespace(**{"hc_count": 4, "ple_layer_ids": [1], "indexer_n_heads": 4} | model)
    names["verify_and_update_config"](
        SimpleNamespace(
            model_config=SimpleNamespace(hf_text_config=text, multimodal_config=None),
            parallel_config=SimpleNamespace(
                use_sequence_parallel_moe=False, pipeline_parallel_size=1, enable_dbo=False, ubatch_size=0
            ),
            speculative_config=None if drafting is None else SimpleNamespace(method=drafting),
        )
    )


for taken in (None, *TAKEN):
    try:
        verify(taken)
    except NotImplementedError as error:
        print(f"{taken} was refused: {error}")
        sys.exit(1)
for other in ("eagle3", "dspark", "medusa"):
    try:
        verify(other)
    except NotImplementedError as error:
        if not all(name in str(error) for name in (*TAKEN, other)):
            print(f"the refusal does not name what is taken: {error}")
            sys.exit(1)
    else:
        print(f"{other} was taken")
        sys.exit(1)
try:
    verify("dflash", hc_count=1)
except ValueError:
    sys.exit(0)
print("the checks before it are gone")
sys.exit(1)
