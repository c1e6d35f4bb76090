"""The installer's commands end in time, leave nothing running, and their failures are explained."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from specdeck.engine import pip_command
from specdeck.engine.pip_command import CommandFailed, clean_environment, explain, run_command


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_output_of_both_streams_is_returned() -> None:
    output = run_command(
        python("import sys; print('out', flush=True); print('err', file=sys.stderr)"), timeout=20, progress=None
    )
    assert output.split() == ["out", "err"]


def test_failure_carries_output_and_status() -> None:
    with pytest.raises(CommandFailed) as caught:
        run_command(python("print('why'); raise SystemExit(3)"), timeout=20, progress=None)
    assert (caught.value.status, caught.value.output) == (3, "why\n")


def test_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(3600)\n"
    )
    with pytest.raises(CommandFailed) as caught:
        run_command(python(program), timeout=5, progress=None)  # long enough to have started the child
    assert caught.value.status is None
    for _ in range(1200):  # signals take effect when the machine gets to it; the child itself would stay for an hour
        if not _runs(int(pid.read_text())):
            return
        time.sleep(0.05)
    raise AssertionError("the command's child outlived it")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_long_command_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_command, "HEARTBEAT_SECONDS", 0.2)
    told: list[str] = []
    program = "import time; print('Collecting numpy==2.3.5 (from -r x)', flush=True); time.sleep(1)"
    run_command(python(program), timeout=20, progress=told.append)
    assert told
    assert told[-1].endswith("Collecting numpy==2.3.5")


def test_environment_is_freed_of_what_misleads_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    found = clean_environment()
    assert "PIP_TARGET" not in found
    assert "PYTHONPATH" not in found
    assert found["PIP_FIND_LINKS"] == "/wheels"
    assert found["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("output", "status", "what"),
    [
        ("OSError: [Errno 28] No space left on device", 1, "disk is full"),
        ("NewConnectionError(... Name or service not known)\nNo matching distribution found", 1, "cannot be reached"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", 1, "not the one that the lock"),
        ("ERROR: No matching distribution found for torch==2.13.0", 1, "has not what the lock file names"),
        ("The virtual environment was not created because ensurepip is not available", 1, "virtual environments"),
        ("something else\nbroke", 1, "a command of the installation failed"),
        ("Collecting torch", None, "took too long"),
    ],
)
def test_failures_are_explained_with_a_fix_and_the_last_lines(output: str, status: int | None, what: str) -> None:
    error = explain(CommandFailed(["pip"], output, status), Path("/x/.venv-engine"))
    assert what in error.what
    assert output.splitlines()[-1] in error.what
    assert error.fix is not None
    assert error.fix.endswith("do not install them") or "again" in error.fix


def test_only_a_missing_distribution_leads_to_the_other_torch() -> None:
    def failed(output: str) -> CommandFailed:
        return CommandFailed(["pip"], output, 1)

    assert failed("ERROR: No matching distribution found for torch").unavailable
    assert failed("THESE PACKAGES DO NOT MATCH THE HASHES").unavailable
    assert not failed("No space left on device").unavailable
    assert not failed("Temporary failure in name resolution").unavailable
