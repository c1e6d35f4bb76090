"""Which machines the CPU engine is refused on, each with the reason and a way out."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from specdeck.engine.host import GIB, Host, check_host, cpu_flags
from specdeck.errors import SpecdeckError

GOOD = Host("Linux", "x86_64", frozenset({"fpu", "avx2"}), (3, 11), ("glibc", "2.28"), 10 * GIB, Path("/data"))

CHECK_WITHOUT_PACKAGES = """
import platform, sys
sys.path.insert(0, {src!r})
platform.machine = lambda: "aarch64"
from specdeck.engine.host import main
sys.exit(main())
"""


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_supported_machine_passes(python: tuple[int, int]) -> None:
    check_host(dataclasses.replace(GOOD, python=python), needed_bytes=10 * GIB)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machine": "aarch64"}, "x86-64 Linux only"),
        ({"system": "Darwin", "machine": "arm64"}, "x86-64 Linux only"),
        ({"system": "Windows", "machine": "AMD64"}, "x86-64 Linux only"),
        ({"flags": frozenset({"sse4_2", "avx"})}, "AVX2"),
        ({"flags": frozenset()}, "AVX2"),
        ({"python": (3, 10)}, "Python 3.11 to 3.14"),
        ({"python": (3, 15)}, "Python 3.11 to 3.14"),
        ({"libc": ("glibc", "2.17")}, "glibc 2.28"),
        ({"libc": ("", "")}, "glibc 2.28"),
        ({"free_bytes": 10 * GIB - 1}, "disk space"),
    ],
)
def test_unsupported_machine_is_refused_with_a_fix(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecdeckError, match=message) as caught:
        check_host(dataclasses.replace(GOOD, **change), needed_bytes=10 * GIB)  # type: ignore[arg-type]
    assert caught.value.fix
    assert caught.value.exit_code == 2


def test_flags_are_read_from_the_first_processor(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx avx2\nbugs\t: x\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert cpu_flags(cpuinfo) == {"fpu", "avx", "avx2"}
    assert cpu_flags(tmp_path / "missing") == frozenset()


def test_this_machine_is_described(tmp_path: Path) -> None:
    here = Host.here(tmp_path)
    assert here.free_bytes > 0
    assert here.python >= (3, 11)


def test_the_check_runs_on_a_bare_python_before_any_environment_exists() -> None:
    root = Path(__file__).resolve().parents[3]
    words = [sys.executable, "-I", "-S", "-c", CHECK_WITHOUT_PACKAGES.format(src=str(root / "src"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "aarch64" in done.stderr
    assert "Fix:" in done.stderr
