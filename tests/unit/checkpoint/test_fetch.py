"""A checkpoint comes whole and as pinned, goes on after a break, and the token is seen nowhere. The hub is a double."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.hub import COMMIT, REPO, Hub, serve

from specdeck.checkpoint.fetch import Fetched, fetch
from specdeck.checkpoint.folder import locate
from specdeck.errors import SpecdeckError
from specdeck.recipe.models import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

Usage = namedtuple("Usage", "total used free")
PINNED = Checkpoint(repo=REPO, revision=COMMIT)
WEIGHTS = "model.safetensors"
TOKEN = "hf_nobodyMaySeeThisToken"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with serve() as found:
        found.files = {"config.json": b'{"a": 1}', WEIGHTS: os.urandom(300_000), "pytorch_model.bin": b"other"}
        yield found


def get(hub: Hub, cache: Path, checkpoint: Checkpoint = PINNED, *, verify: bool = False) -> Fetched:
    return fetch(checkpoint, cache=cache, verify=verify, say=print, endpoint=hub.url)


def refused(hub: Hub, cache: Path, checkpoint: Checkpoint = PINNED, *, verify: bool = False) -> SpecdeckError:
    with pytest.raises(SpecdeckError) as caught:
        get(hub, cache, checkpoint, verify=verify)
    assert caught.value.fix
    assert TOKEN not in str(caught.value)
    return caught.value


def test_what_vllm_reads_is_downloaded_at_the_pinned_commit_and_checked(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = get(hub, tmp_path)
    assert (done.revision, done.downloaded, done.checked) == (COMMIT, 2, 2)
    assert (done.folder / WEIGHTS).read_bytes() == hub.files[WEIGHTS]
    assert not (done.folder / "pytorch_model.bin").exists()
    found = locate(PINNED, tmp_path, cache=tmp_path)
    assert found is not None
    assert found.folder == done.folder
    assert f"Bearer {TOKEN}" in hub.tokens
    assert TOKEN not in "".join(capsys.readouterr())


def test_a_second_fetch_downloads_nothing(hub: Hub, tmp_path: Path) -> None:
    get(hub, tmp_path)
    before = len(hub.gets(WEIGHTS))
    again = get(hub, tmp_path)
    assert (again.downloaded, again.checked, len(hub.gets(WEIGHTS))) == (0, 0, before)


def test_a_broken_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.files[WEIGHTS] = os.urandom(2**20) * 25  # the library writes 10 MiB at a time
    hub.break_after = {WEIGHTS: 22 * 2**20}
    done = get(hub, tmp_path)
    assert hub.break_after == {}
    assert f"bytes={20 * 2**20}-" in hub.gets(WEIGHTS)
    assert (done.folder / WEIGHTS).read_bytes() == hub.files[WEIGHTS]


def test_a_download_that_was_ended_goes_on_in_the_next_one(hub: Hub, tmp_path: Path) -> None:
    hub.files[WEIGHTS] = os.urandom(2**20) * 25
    hub.stall_after = {WEIGHTS: 22 * 2**20}
    code = "import sys; from support.fetching import main; main(*sys.argv[1:])"
    words = [sys.executable, "-c", code, hub.url, str(tmp_path)]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}) as process:
        assert hub.stalled.wait(60)
        process.kill()
    hub.go_on.set()
    hub.asked.clear()
    done = get(hub, tmp_path)
    (span,) = hub.gets(WEIGHTS)
    assert span in {f"bytes={count * 10 * 2**20}-" for count in (1, 2)}  # what the ended process had written
    assert (done.folder / WEIGHTS).read_bytes() == hub.files[WEIGHTS]


def test_a_file_that_is_not_the_hubs_is_removed_and_downloaded_again(hub: Hub, tmp_path: Path) -> None:
    good = hub.files[WEIGHTS]
    hub.claimed = {WEIGHTS: good}
    hub.files[WEIGHTS] = good[:-1] + bytes([good[-1] ^ 1])
    error = refused(hub, tmp_path)
    assert (error.exit_code, "is not the hub's file" in error.what) == (1, True)
    assert list(tmp_path.rglob("*-part")) == []
    hub.files[WEIGHTS] = good
    assert (get(hub, tmp_path).folder / WEIGHTS).read_bytes() == good


def test_a_file_that_was_damaged_later_is_found_by_verify_alone(hub: Hub, tmp_path: Path) -> None:
    path = (get(hub, tmp_path).folder / WEIGHTS).resolve()
    path.chmod(0o600)
    path.write_bytes(bytes(len(hub.files[WEIGHTS])))
    assert get(hub, tmp_path).checked == 0
    assert "is not the hub's file" in refused(hub, tmp_path, verify=True).what
    assert get(hub, tmp_path, verify=True).downloaded == 1


def test_a_file_that_was_cut_short_is_downloaded_again(hub: Hub, tmp_path: Path) -> None:
    path = (get(hub, tmp_path).folder / WEIGHTS).resolve()
    path.chmod(0o600)
    path.write_bytes(b"short")
    assert get(hub, tmp_path).downloaded == 1
    assert path.read_bytes() == hub.files[WEIGHTS]


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "GatedRepo", "licence to be accepted"),
        (404, "RepoNotFound", "does not exist, or is private"),
        (404, "RevisionNotFound", "has no revision"),
        (401, "", "the token"),
        (403, "", "refuses the token (HTTP 403)"),
        (500, "", "could not be downloaded"),
    ],
)
def test_a_refusal_is_told_with_the_way_out(hub: Hub, tmp_path: Path, status: int, code: str, said: str) -> None:
    hub.status, hub.code = status, code
    error = refused(hub, tmp_path)
    assert said in error.what
    assert error.exit_code == 2


def test_a_disk_that_is_too_small_is_told_before_a_byte_is_downloaded(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(10**9, 10**9, 200_000))
    assert "0.0 GB are free" in refused(hub, tmp_path).what
    assert hub.gets(WEIGHTS) == []


def test_a_hub_that_answers_with_another_commit_is_refused(hub: Hub, tmp_path: Path) -> None:
    assert "is pinned" in refused(hub, tmp_path, Checkpoint(repo=REPO, revision="d" * 40)).what


def test_without_a_pin_the_commit_is_named(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert get(hub, tmp_path, Checkpoint(repo=REPO)).revision == COMMIT
    assert f"no revision is pinned; this is commit {COMMIT}" in capsys.readouterr().out


def test_offline_what_is_there_is_used_and_what_is_not_is_refused_kindly(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = get(hub, tmp_path / "full")
    hub.asked.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert get(hub, tmp_path / "full").folder == done.folder
    error = refused(hub, tmp_path / "empty")
    assert "downloads are switched off" in error.what
    assert hub.asked == []
