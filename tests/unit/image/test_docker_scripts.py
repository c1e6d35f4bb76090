"""What the CUDA build does besides pip: links curand's headers alone, and refuses a selector without its kernel.

No GPU and no CUDA are here: vLLM's and FlashInfer's answers are stand-ins of the few names that the scripts ask.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[3] / "docker"
KERNEL = "class Spec:\n    is_aot = {aot}\n    def build(self{more}): {build}\ndef gen_topk_module(): return Spec()\n"


def script(name: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "packages").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(DOCKER / name)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "packages")} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def module(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "packages" / (name.replace(".", "/") + ".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.relative_to(tmp_path / "packages").parents:
        (tmp_path / "packages" / folder / "__init__.py").touch()
    path.write_text(text)


def link(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(DOCKER)!r}); import link_curand, pathlib; "
    call = (
        f"print(link_curand.link(pathlib.Path({str(tmp_path / 'cuda')!r}), pathlib.Path({str(tmp_path / 'site')!r})))"
    )
    return subprocess.run([sys.executable, "-B", "-c", code + call], capture_output=True, text=True, check=False)


def test_only_the_headers_of_curand_are_linked(tmp_path: Path) -> None:
    headers = tmp_path / "site/nvidia/cu13/include"
    headers.mkdir(parents=True)
    for name in ("curand.h", "curand_kernel.h", "host_runtime.h", "cuda.h"):
        (headers / name).write_text(name)
    include = tmp_path / "cuda/include"
    include.mkdir(parents=True)
    assert link(tmp_path).stdout.strip() == "['curand.h', 'curand_kernel.h']"
    assert sorted(path.name for path in include.iterdir()) == ["curand.h", "curand_kernel.h"]
    assert (include / "curand_kernel.h").read_text() == "curand_kernel.h"


def test_a_toolkit_that_has_the_headers_is_left_alone(tmp_path: Path) -> None:
    include = tmp_path / "cuda/include"
    include.mkdir(parents=True)
    (include / "curand.h").write_text("own")
    assert link(tmp_path).stdout.strip() == "[]"
    assert [path.name for path in include.iterdir()] == ["curand.h"]


def test_headers_that_are_nowhere_fail_the_build(tmp_path: Path) -> None:
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/nvcc").touch()
    done = script("link_curand.py", tmp_path, CUDA_HOME=str(tmp_path / "cuda"))
    assert done.returncode == 1
    assert "curand.h is neither in" in done.stderr
    assert "Fix: install libcurand-dev" in done.stderr


def test_without_a_compiler_no_header_is_needed(tmp_path: Path) -> None:
    assert script("link_curand.py", tmp_path, CUDA_HOME=str(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("usable", "kernel", "said"),
    [
        ("False", KERNEL.format(aot=True, more="", build="pass"), "vLLM finds no usable FlashInfer"),
        (
            "True",
            KERNEL.format(aot=False, more="", build="raise RuntimeError('no nvcc')"),
            "cannot be compiled: no nvcc",
        ),
        ("True", "raise ImportError('libcudart')", "cannot be compiled: libcudart"),
    ],
)
def test_a_selector_that_would_fall_back_fails_the_build(tmp_path: Path, usable: str, kernel: str, said: str) -> None:
    module(tmp_path, "vllm.utils.flashinfer", f"def has_flashinfer(): return {usable}\n")
    module(tmp_path, "flashinfer.jit.topk", kernel)
    done = script("check_topk.py", tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Fix:" in done.stderr


def test_a_vllm_that_has_no_selector_fails_the_build(tmp_path: Path) -> None:
    assert script("check_topk.py", tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (KERNEL.format(aot=True, more="", build="raise AssertionError"), "it comes compiled"),
        (KERNEL.format(aot=False, more="", build="pass"), "compiled here"),
        (KERNEL.format(aot=False, more=", verbose", build="assert verbose is False"), "compiled here"),
    ],
)
def test_a_kernel_that_comes_compiled_or_compiles_is_fine(tmp_path: Path, kernel: str, said: str) -> None:
    module(tmp_path, "vllm.utils.flashinfer", "def has_flashinfer(): return True\n")
    module(tmp_path, "flashinfer.jit.topk", kernel)
    done = script("check_topk.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_architectures_named_are_those_compiled_for(tmp_path: Path) -> None:
    module(tmp_path, "vllm.utils.flashinfer", "def has_flashinfer(): return True\n")
    build = "import os; print('for', os.environ['FLASHINFER_CUDA_ARCH_LIST'])"
    module(tmp_path, "flashinfer.jit.topk", KERNEL.format(aot=False, more="", build=build))
    assert "for 8.6 9.0a" in script("check_topk.py", tmp_path, CUDA_ARCHS="8.6 9.0a").stdout


def test_a_base_that_sets_cpath_is_refused() -> None:
    done = subprocess.run(
        ["sh", str(DOCKER / "install_cuda.sh")], env={"CPATH": "/x"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "sets CPATH" in done.stderr
