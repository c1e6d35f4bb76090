"""A small vLLM and a small series of patches on disk, for tests of applying them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

ONE = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"
TWO = "x = 1\ny = 2\n"
DIFF = """\
--- a/vllm/one.py
+++ b/vllm/one.py
@@ -2,3 +2,4 @@
 b = 2
-c = 3
+c = 30
+c2 = 31
 d = 4
--- a/vllm/two.py
+++ b/vllm/two.py
@@ -1,2 +1,2 @@
-x = 1
+x = 10
 y = 2
"""
ONE_PATCHED = "a = 1\nb = 2\nc = 30\nc2 = 31\nd = 4\ne = 5\n"
TWO_PATCHED = "x = 10\ny = 2\n"
PROOF = """\
import pathlib, sys
sys.exit("c = 30" not in (pathlib.Path(sys.argv[1]) / "vllm/one.py").read_text())
"""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def vllm(folder: Path, version: str = "0.30.0", **files: str) -> Path:
    """Write a vLLM with one.py and two.py; `files` by module name replace or add to them."""
    (folder / "vllm").mkdir(parents=True, exist_ok=True)
    texts = {"__init__": "", "_version": f"__version__ = version = '{version}'\n", "one": ONE, "two": TWO} | files
    for name, text in texts.items():
        (folder / "vllm" / f"{name}.py").write_text(text)
    return folder


def entry(**changed: Any) -> dict[str, Any]:
    """Return the series' entry of the patch `a-patch`."""
    return {
        "id": "a-patch",
        "upstream": "https://github.com/example/vllm/pull/1",
        "purpose": "a purpose",
        "since": "0.29.0",
        "before": "0.31.0",
        "drop": {"when": "upstream counts by ten", "file": "vllm/one.py", "contains": "c = 300"},
        "license": "Apache-2.0",
        "proof": "proof.py",
        "diffs": [
            {
                "file": "a-patch.diff",
                "sha256": sha(DIFF),
                "releases": ["0.30.0"],
                "files": {
                    "vllm/one.py": {"before": sha(ONE), "after": sha(ONE_PATCHED)},
                    "vllm/two.py": {"before": sha(TWO), "after": sha(TWO_PATCHED)},
                },
            }
        ],
    } | changed


def series(folder: Path, *entries: dict[str, Any], proof: str = PROOF, diff: str = DIFF) -> Path:
    """Write a series with its diff and proof; without entries, that of `a-patch`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "series.yml").write_text(yaml.safe_dump({"patches": list(entries) or [entry()]}, sort_keys=False))
    (folder / "a-patch.diff").write_text(diff)
    (folder / "proof.py").write_text(proof)
    return folder
