"""The backend is active, and the plugin patches, only where kernels are meant to run in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from specdeck_triton_cpu.compiler import NOT_COMPILED, InterpreterBackend
from specdeck_triton_cpu.driver import InterpreterDriver
from triton.backends import backends
from triton.backends.compiler import GPUTarget


def python(program: str, **environment: str) -> str:
    """Run a program in a process of its own and return what it prints."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    run = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    return run.stdout.strip()


def test_triton_finds_the_backend_by_its_entry_point() -> None:
    assert backends["cpu"].driver is InterpreterDriver
    assert InterpreterDriver.is_active()


def test_backend_is_inactive_beside_a_real_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends["nvidia"].driver, "is_active", lambda: True)
    assert not InterpreterDriver.is_active()


def test_nothing_is_patched_without_the_interpreter() -> None:
    program = (
        "import sys; from specdeck_triton_cpu.plugin import register; register(); "
        "from triton.backends import backends; "
        "print(backends['cpu'].driver.is_active(), 'specdeck_triton_cpu.gaps' in sys.modules)"
    )
    assert python(program) == "False False"
    assert python(program, TRITON_INTERPRET="0") == "False False"
    assert python(program, TRITON_INTERPRET="1") == "True True"


def test_short_paths_can_be_switched_off() -> None:
    program = (
        "import sys; from specdeck_triton_cpu.plugin import register; register(); "
        "print('specdeck_triton_cpu.gaps' in sys.modules, 'specdeck_triton_cpu.fast' in sys.modules, "
        "__import__('triton').language.tensor.__init__.__module__)"
    )
    interpreted = python(program, TRITON_INTERPRET="1", SPECDECK_TRITON_SHORT_PATHS="0")
    assert interpreted.endswith("triton.language.core")
    assert python(program, TRITON_INTERPRET="1") == "True True specdeck_triton_cpu.fast_tensor"


def test_vllm_accepts_triton_with_the_backend() -> None:
    program = "from vllm.triton_utils import HAS_TRITON; print(HAS_TRITON)"
    assert python(program, TRITON_INTERPRET="1").splitlines()[-1] == "True"


def test_compiling_a_kernel_says_what_to_set() -> None:
    backend = InterpreterBackend(GPUTarget("cpu", 0, 1))
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1") as caught:
        backend.parse_options({})
    assert str(caught.value) == NOT_COMPILED
