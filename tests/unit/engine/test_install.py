"""Installing the engine: what is done when, and what a person is told. No network: the commands are recorded."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specdeck.engine import install
from specdeck.engine.host import GIB, Host
from specdeck.engine.pip_command import CommandFailed
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[3]
GOOD = Host("Linux", "x86_64", frozenset({"avx2"}), (3, 12), ("glibc", "2.36"), 100 * GIB, Path("/"))


class Commands:
    """Stands in for run_command: creates what the real ones create and fails where told to."""

    def __init__(self, fail: dict[str, str] | None = None, versions: str = "0.32.0 2.13.0+cpu True") -> None:
        self.lines: list[str] = []
        self.fail = fail or {}
        self.versions = versions

    def __call__(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        progress: object,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        line = " ".join(command)
        self.lines.append(line)
        for sign, output in self.fail.items():
            if sign in line:
                raise CommandFailed(command, output, 1)
        if command[1:3] == ["-m", "venv"]:
            python = install.interpreter(Path(command[3]))
            python.parent.mkdir(parents=True)
            python.touch(mode=0o755)
        if "specdeck-verify" in line:
            assert environment is not None
            assert environment["TRITON_INTERPRET"] == "1"
            return f"INFO noise\nspecdeck-verify {self.versions}\n"
        return ""

    def did(self, *signs: str) -> list[bool]:
        return [any(sign in line for line in self.lines) for sign in signs]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "a clone with spaces"
    source = root / "engines" / "cpu"
    (source / "src" / "package").mkdir(parents=True)
    for name in install.LOCKS:
        (source / name).write_text(f"{name}\n")
    (source / "pyproject.toml").write_text("[project]\n")
    (source / "src" / "package" / "module.py").write_text("x = 1\n")
    return root


def ensure(root: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> tuple[install.EngineEnv, list[str]]:
    monkeypatch.setattr(install, "run_command", commands)
    told: list[str] = []
    return install.ensure_engine(root / ".venv-engine", progress=told.append, host=GOOD), told


def test_first_run_creates_the_environment_and_says_each_step(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands()
    found, told = ensure(checkout, commands, monkeypatch)
    assert found == install.EngineEnv(checkout / ".venv-engine" / "bin" / "python", "0.32.0", "2.13.0+cpu")
    assert commands.did("-m venv", "torch-cpu.lock", "requirements.lock", "--editable", "specdeck-verify") == [True] * 5
    assert commands.did("torch-any.lock") == [False]
    assert all("--require-hashes" in line for line in commands.lines if ".lock" in line)
    assert [line.split()[0] for line in told] == [
        "Creating",
        "Installing",
        "Installing",
        "Installing",
        "Checking",
        "The",
    ]


def test_second_run_does_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = ensure(checkout, Commands(), monkeypatch)
    again = Commands()
    second, told = ensure(checkout, again, monkeypatch)
    assert (second, again.lines, told) == (first, [], [])


def test_changed_plugin_is_installed_again_without_the_packages(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(checkout, Commands(), monkeypatch)
    (checkout / "engines" / "cpu" / "src" / "package" / "module.py").write_text("x = 2\n")
    commands = Commands()
    ensure(checkout, commands, monkeypatch)
    assert commands.did("--editable", "specdeck-verify", "-m venv", "requirements.lock") == [True, True, False, False]


def test_changed_lock_file_builds_the_environment_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, Commands(), monkeypatch)
    stale = checkout / ".venv-engine" / "stale"
    stale.touch()
    (checkout / "engines" / "cpu" / "requirements.lock").write_text("other\n")
    commands = Commands()
    ensure(checkout, commands, monkeypatch)
    assert commands.did("-m venv", "requirements.lock") == [True, True]
    assert not stale.exists()


def test_interrupted_installation_is_redone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecdeckError):
        ensure(checkout, Commands(fail={"requirements.lock": "boom"}), monkeypatch)
    assert install.read_stamp(checkout / ".venv-engine") is None
    commands = Commands()
    ensure(checkout, commands, monkeypatch)
    assert commands.did("-m venv", "requirements.lock") == [True, True]


def test_unreadable_stamp_counts_as_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, Commands(), monkeypatch)
    stamp = checkout / ".venv-engine" / install.STAMP
    for text in ("", "[]", "{", json.dumps({"other": 1})):
        stamp.write_text(text)
        assert install.read_stamp(stamp.parent) is None


def test_moved_checkout_is_installed_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, Commands(), monkeypatch)
    moved = checkout.rename(checkout.with_name("moved"))
    commands = Commands()
    ensure(moved, commands, monkeypatch)
    assert commands.did("-m venv") == [True]


def test_an_environment_that_is_a_link_is_used_and_never_changed(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(checkout, Commands(), monkeypatch)
    other = tmp_path / "worktree"
    shutil.copytree(checkout / "engines", other / "engines")
    (other / ".venv-engine").symlink_to(checkout / ".venv-engine")
    commands = Commands()
    env, _ = ensure(other, commands, monkeypatch)
    assert env.python == install.interpreter(checkout / ".venv-engine")
    assert commands.lines == []

    before = (checkout / ".venv-engine" / install.STAMP).read_bytes()
    (other / "engines" / "cpu" / install.LOCKS[0]).write_text("another\n")
    with pytest.raises(SpecdeckError, match="is a link to") as caught:
        ensure(other, commands, monkeypatch)
    assert f"rm '{other / '.venv-engine'}'" in str(caught.value)
    assert commands.lines == []
    assert (checkout / ".venv-engine" / install.STAMP).read_bytes() == before


def test_environment_whose_python_is_gone_is_installed_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = ensure(checkout, Commands(), monkeypatch)
    found.python.unlink()
    commands = Commands()
    ensure(checkout, commands, monkeypatch)
    assert commands.did("-m venv") == [True]


@pytest.mark.parametrize(
    "reason", ["ERROR: No matching distribution found", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES"]
)
def test_without_a_known_cpu_torch_the_public_one_is_taken(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    commands = Commands(fail={"torch-cpu.lock": reason}, versions="0.32.0 2.13.0+cu130 True")
    found, told = ensure(checkout, commands, monkeypatch)
    assert found.torch == "2.13.0+cu130"
    assert commands.did("torch-any.lock") == [True]
    assert any("No CPU build of torch" in line for line in told)


def test_offline_failure_is_not_taken_for_a_missing_cpu_torch(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(fail={"torch-cpu.lock": "NewConnectionError: Temporary failure in name resolution"})
    with pytest.raises(SpecdeckError, match="cannot be reached") as caught:
        ensure(checkout, commands, monkeypatch)
    assert caught.value.fix
    assert commands.did("torch-any.lock") == [False]


@pytest.mark.parametrize("versions", ["0.31.0 2.13.0 True", "0.32.0 2.13.0 False", ""])
def test_engine_that_is_not_the_expected_one_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, versions: str
) -> None:
    with pytest.raises(SpecdeckError, match="not the expected one"):
        ensure(checkout, Commands(versions=versions), monkeypatch)
    assert install.read_stamp(checkout / ".venv-engine") is None


def test_host_is_refused_before_anything_runs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands()
    monkeypatch.setattr(install, "run_command", commands)
    host = dataclasses.replace(GOOD, machine="aarch64")
    with pytest.raises(SpecdeckError, match="x86-64"):
        install.ensure_engine(checkout / ".venv-engine", progress=lambda _: None, host=host)
    assert commands.lines == []
    assert not (checkout / ".venv-engine").exists()


def test_missing_lock_file_is_named(checkout: Path) -> None:
    (checkout / "engines" / "cpu" / "torch-any.lock").unlink()
    with pytest.raises(SpecdeckError) as caught:
        install.ensure_engine(checkout / ".venv-engine", progress=lambda _: None, host=GOOD)
    assert str(caught.value.where).endswith("torch-any.lock")


def _install_slowly(root: Path, log: Path) -> None:
    def commands(command: Sequence[str], **keywords: object) -> str:
        with log.open("a") as file:
            file.write(" ".join(command) + "\n")
        time.sleep(0.2)
        return Commands()(command, timeout=1, progress=None, environment={"TRITON_INTERPRET": "1"})

    vars(install)["run_command"] = commands
    install.ensure_engine(root / ".venv-engine", progress=lambda _: None, host=GOOD)


def test_two_processes_at_once_install_once(checkout: Path, tmp_path: Path) -> None:
    log = tmp_path / "commands"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_install_slowly, args=(checkout, log)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0]
    assert sum("-m venv" in line for line in log.read_text().splitlines()) == 1


def test_lock_files_pin_and_hash_everything_and_name_no_host() -> None:
    for name in install.LOCKS:
        text = (ROOT / "engines" / "cpu" / name).read_text()
        entries = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert entries
        assert all("==" in line and line.endswith("\\") for line in entries), name
        assert "://" not in text


def test_torch_is_pinned_to_one_version_and_only_in_its_own_lock_files() -> None:
    folder = ROOT / "engines" / "cpu"
    pins = {
        name: [line.split()[0] for line in (folder / name).read_text().splitlines() if line.startswith("torch")]
        for name in install.LOCKS
    }
    assert pins == {
        "requirements.lock": [],
        "torch-cpu.lock": ["torch==2.13.0+cpu"],
        "torch-any.lock": ["torch==2.13.0"],
    }
