"""The script that the workflow and `make ci-local` share, on the ends it must get right whatever happened before."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from specdeck.paths import repo_root

if TYPE_CHECKING:
    from pathlib import Path


def _script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(repo_root() / "tools" / "regression.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_gate_step_ends_with_the_verdict(tmp_path: Path, code: int) -> None:
    (tmp_path / "exit-code").write_text(f"{code}\n")
    assert _script("gate", str(tmp_path)).returncode == code


@pytest.mark.parametrize("content", [None, "", "7", "0 1", "true"])
def test_a_gate_without_a_verdict_never_passes(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "exit-code").write_text(content)
    assert _script("gate", str(tmp_path)).returncode == 2


def test_the_summary_is_the_comparison_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "comparison.md").write_text("<!-- specdeck comparison: default -->\n### x\n")
    done = _script("summary", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "<!-- specdeck comparison: default -->\n### x\n")


def test_a_summary_without_a_comparison_says_so_and_can_still_be_a_comment(tmp_path: Path) -> None:
    done = _script("summary", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.startswith("<!-- specdeck comparison: none -->\n")
    assert "UNMEASURABLE" in done.stdout


def test_measuring_what_does_not_exist_leaves_the_verdict_unmeasurable_and_lets_the_next_steps_run(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    done = _script("measure", "no-such-recipe", "smoke", "none.json", "default", str(out))
    assert done.returncode == 0, done.stderr
    assert "no-such-recipe" in done.stderr
    assert (out / "exit-code").read_text() == "2\n"
    assert _script("gate", str(out)).returncode == 2
    assert _script("summary", str(out)).stdout.startswith("<!-- specdeck comparison: default -->\n")


@pytest.mark.parametrize("arguments", [(), ("mesure",), ("gate",), ("summary",), ("measure", "recipe")])
def test_misuse_is_told_and_is_no_pass(arguments: tuple[str, ...]) -> None:
    done = _script(*arguments)
    assert done.returncode == 2
    assert "regression.sh measure RECIPE" in done.stderr


PLAYED = """#!/usr/bin/env bash
# Plays the harness: bench leaves a run, compare fails until it is given as many repetitions as $CLEARS_AFTER.
case "$1 $2 $3" in
  "-c "*) exec {python} "$@" ;;
  "-m specdeck bench")
    while (($#)); do
      [[ $1 != --results ]] || folder=$2
      [[ $1 != --arm=* ]] || echo "${{1#--arm=}}" >> "$LOG"
      shift
    done
    mkdir -p "$folder/run" && echo {{}} > "$folder/run/run.json" ;;
  "-m specdeck compare")
    given=0
    while (($#)); do
      [[ $1 != --confirm=* ]] || given=$((given + 1))
      [[ $1 != --write ]] || folder=$2
      shift
    done
    arms='"mtp", "dflash2"'
    ((given < WANTED)) || arms=
    mkdir -p "$folder" && echo "{{\\"measure_again\\": [$arms]}}" > "$folder/comparison.json"
    ((given >= CLEARS_AFTER)) || exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("wanted", "clears_after", "measured_again", "verdict"), [(1, 1, 1, 0), (1, 9, 1, 1), (3, 2, 2, 0), (0, 9, 0, 1)]
)
def test_failing_arms_are_measured_again_as_often_as_the_gates_want_and_no_more(
    tmp_path: Path, wanted: int, clears_after: int, measured_again: int, verdict: int
) -> None:
    for folder in ("tools", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    script, python, log = tmp_path / "tools" / "regression.sh", tmp_path / ".venv" / "bin" / "python", tmp_path / "log"
    script.write_bytes((repo_root() / "tools" / "regression.sh").read_bytes())
    python.write_text(PLAYED.format(python=sys.executable))
    for file in (script, python):
        file.chmod(0o755)
    log.touch()
    done = subprocess.run(
        [script, "measure", "tiny", "smoke", "base.json", "default", "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "LOG": str(log), "WANTED": str(wanted), "CLEARS_AFTER": str(clears_after)},
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text().split() == ["mtp", "dflash2"] * measured_again
    assert (tmp_path / "out" / "exit-code").read_text() == f"{verdict}\n"
