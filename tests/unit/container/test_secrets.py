"""Secrets for a container lie in memory, readable by their owner alone, until it is stopped."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from specdeck.container.secrets import forget, keep
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_a_kept_secret_is_readable_by_its_owner_alone_and_gone_when_forgotten(memory: Path) -> None:
    path = keep("c", {"vllm_api_key": "a-secret"})["vllm_api_key"]
    assert path.is_relative_to(memory)
    assert path.read_text() == "a-secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    forget("c")
    forget("c")
    assert not path.exists()


def test_without_secrets_nothing_is_made(memory: Path) -> None:
    assert keep("c", {}) == {}
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_folder_that_others_could_read_or_have_put_there_is_refused(memory: Path, trap: str) -> None:
    path = keep("c", {"k": "v"})["k"].parent.parent
    forget("c")
    if trap == "open":
        path.chmod(0o755)
    else:
        path.rmdir()
        path.symlink_to(memory) if trap == "link" else path.write_text("")
    with pytest.raises(SpecdeckError, match="cannot be kept in memory") as caught:
        keep("c", {"k": "v"})
    assert "v" not in {word.strip("'\"") for word in str(caught.value).split()}
    assert caught.value.fix
