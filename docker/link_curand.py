"""Puts curand's headers where FlashInfer's compiler looks, by links to those headers alone.

nvcc reads its own include folder. An image without curand's development package has the headers in a Python package of
NVIDIA's. Naming that whole folder (CPATH) would also bring a host_runtime.h of another CUDA into the compilation.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def cuda_home() -> Path | None:
    """Return the CUDA toolkit that FlashInfer compiles with; None where there is no nvcc."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        return Path(named) if (Path(named) / "bin" / "nvcc").is_file() else None
    nvcc = shutil.which("nvcc")
    if nvcc:
        return Path(nvcc).resolve().parents[1]
    usual = Path("/usr/local/cuda")
    return usual if (usual / "bin" / "nvcc").is_file() else None


def link(home: Path, site: Path) -> list[str]:
    """Link what the toolkit lacks.

    Args:
        home: the toolkit.
        site: the folder that holds NVIDIA's Python packages.

    Returns:
        The headers that were linked; none where the toolkit has curand.h itself.

    Raises:
        FileNotFoundError: neither has curand.h.
    """
    include = home / "include"
    if (include / "curand.h").is_file():
        return []
    found = sorted(path.parent for path in site.glob("nvidia/*/include/curand.h"))
    if not found:
        raise FileNotFoundError(f"curand.h is neither in {include} nor in NVIDIA's packages below {site}")
    include.mkdir(parents=True, exist_ok=True)
    linked = []
    for header in sorted(found[0].glob("curand*.h")):
        if not (include / header.name).exists():
            (include / header.name).symlink_to(header)
            linked.append(header.name)
    return linked


def main() -> int:
    """Link the headers of this image."""
    home = cuda_home()
    if home is None:
        print("curand: no nvcc here, nothing will be compiled")
        return 0
    try:
        linked = link(home, Path(sysconfig.get_paths()["purelib"]))
    except FileNotFoundError as error:
        print(
            f"error: {error}\n  Fix: install libcurand-dev of this CUDA in the base (Debian: libcurand-dev-13-0)",
            file=sys.stderr,
        )
        return 1
    print(f"curand: {', '.join(linked) or 'the toolkit has its headers'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
