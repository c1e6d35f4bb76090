"""The short paths give what the interpreter gives, bit for bit, in type, shape, value and refusal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

COMPARE = """
import warnings
from triton.runtime import interpreter
from specdeck_triton_cpu import fast, fast_launch, gaps
import operations

warnings.simplefilter("ignore")
gaps.close()
fast_launch.patch_language()
calls = operations.everything()
slow = {name: operations.outcome(call) for name, call in calls.items()}
fast.install()
quick = {name: operations.outcome(call) for name, call in calls.items()}
different = [name for name in slow if slow[name] != quick[name]]
print("COMPARED", len(slow), "RAISED", sum(found[0] == "raises" for found in slow.values()))
for name in different[:40]:
    print("DIFFERS", name, slow[name], quick[name])
print("TOTAL", len(different))
"""


def test_short_paths_agree_with_the_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-c", COMPARE], cwd=HERE, capture_output=True, text=True, timeout=110, check=False
    )
    assert run.returncode == 0, run.stderr
    compared = next(line for line in run.stdout.splitlines() if line.startswith("COMPARED")).split()
    assert int(compared[1]) > 10_000
    assert run.stdout.rstrip().endswith("TOTAL 0"), run.stdout
