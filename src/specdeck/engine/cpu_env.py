"""What the managed CPU engine needs in its environment, and why each variable is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of the engine's processes."""

    name: str
    value: str
    why: str


CPU_VARIABLES: tuple[Variable, ...] = (
    Variable("TRITON_INTERPRET", "1", "Triton compiles nothing for a CPU: its kernels run in its interpreter"),
    Variable("VLLM_CPU_KVCACHE_SPACE", "1", "GiB of KV cache; unset, vLLM claims a share of all memory"),
    Variable(
        "VLLM_ENABLE_V1_MULTIPROCESSING",
        "0",
        "runs the worker inside the engine process: one import of torch less at the start (26 s became 17 s on two "
        "cores), and no process that polls shared memory on the second core",
    ),
    Variable(
        "OMP_NUM_THREADS",
        "1",
        "a tiny model's operators are shorter than waking a second thread, and the other core serves HTTP; "
        "raise it for a larger model",
    ),
    Variable("HF_HUB_OFFLINE", "1", "checkpoints are local folders: a typing error must not become a download"),
    Variable("VLLM_NO_USAGE_STATS", "1", "no usage report"),
    Variable("DO_NOT_TRACK", "1", "no usage report from the libraries either"),
)


def cpu_environment() -> dict[str, str]:
    """Return the variables to set for a server on the managed CPU engine; none is a secret."""
    return {variable.name: variable.value for variable in CPU_VARIABLES}
