"""Loading a recipe and running all rules on it is cheap, and needs nothing heavy."""

from __future__ import annotations

import subprocess
import sys

from support.memory import PEAK_MIB

from specdeck.paths import repo_root

PROGRAM = f"""
import sys
from specdeck.paths import repo_root
from specdeck.recipe.load import open_recipe
from specdeck.rules.evaluate import check_loaded
from specdeck.rules.gather import gather
loaded = open_recipe("qwen3.8-27b-nvfp4-unsloth-2x5090-512k")
report = check_loaded(loaded, facts=gather(loaded.model, repo_root()))
heavy = {{"torch", "vllm", "numpy", "aiohttp", "matplotlib", "pandas"}} & set(sys.modules)
print(len(report.found), {PEAK_MIB}, *heavy)
"""


def test_loading_and_checking_a_recipe_needs_nothing_heavy_and_under_60_mib() -> None:
    """The seconds it takes are measured by `make perf-report`, where nothing else runs."""
    found, peak, *heavy = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=repo_root(), capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(found) > 0
    assert not heavy
    assert float(peak) < 60
