"""Results appear whole or not at all, are read back strictly, and have one writer."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specdeck.errors import SpecdeckError
from specdeck.results.schema import (
    SCHEMA_VERSION,
    Cell,
    ClientHealth,
    CounterDelta,
    HostUse,
    RequestError,
    RequestRecord,
    Run,
    Sampling,
)
from specdeck.results.store import RunStore


def _run(run_id: str = "r1", **changes: Any) -> Run:
    run = Run(
        run_id=run_id,
        fingerprint="f",
        created_at="2026-12-01T00:00:00+00:00",
        status="running",
        recipe_name="tiny",
        recipe={},
        recipe_sha256="",
        plan_name="p",
        plan={},
        plan_sha256="",
        prompts_file="x.jsonl",
        prompts_sha256="",
        num_prompts=1,
        device="cpu",
        baseline_arm="none",
        arms={},
        provenance={},
    )
    return msgspec.structs.replace(run, **changes)


def _cell(arm: str = "mtp", cell_id: str = "c1-r1", order: int = 1) -> Cell:
    return Cell(
        cell_id=cell_id,
        arm=arm,
        concurrency=1,
        round=1,
        order=order,
        started_at="2026-12-01T00:00:00+00:00",
        duration_s=1.0,
        sampling=Sampling(temperature=0.0, max_tokens=4),
        cache_policy="cold",
        status="ok",
        counters=CounterDelta(drafts=3, accepted_per_pos=(2, 1)),
        client=ClientHealth(requested_concurrency=1),
        host=HostUse(gpus=({"index": 0.0, "power_w": None},)),
        num_requests=2,
        num_failed=1,
    )


RECORDS = [
    RequestRecord(request_id="a", index=0, prompt_id="ü", category="c", scheduled_s=0.0, end_s=1.0, text="z\u2028\n🦆"),
    RequestRecord(
        request_id="b",
        index=1,
        prompt_id="q",
        category="c",
        scheduled_s=0.0,
        end_s=1.0,
        error=RequestError(kind="http", message="no", status=500),
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.create(tmp_path, _run())


def test_what_was_stored_is_read_back_equal(store: RunStore) -> None:
    path = store.write_cell(_cell(), RECORDS, "before 1\n", "after 2\n")
    reader = RunStore.open(store.path)
    assert reader.run() == _run()
    assert reader.cells() == [(_cell(), path)]
    assert reader.records("mtp", "c1-r1") == RECORDS
    assert reader.metrics("mtp", "c1-r1") == ("before 1\n", "after 2\n")
    assert reader.has_cell("mtp", "c1-r1")
    assert not reader.has_cell("mtp", "c1-r2")
    assert sorted(file.name for file in path.iterdir()) == [
        "cell.json",
        "metrics-after.txt",
        "metrics-before.txt",
        "requests.jsonl",
    ]


def test_cells_come_in_measuring_order_and_logs_between_them_do_no_harm(store: RunStore) -> None:
    for order, (arm, cell_id) in enumerate([("none", "c1-r1"), ("mtp", "c4-r1"), ("mtp", "c1-r2")], 1):
        store.write_cell(_cell(arm, cell_id, order), [], "", "")
    (store.path / "mtp" / "server-1.log").write_text("log")
    assert [(cell.arm, cell.cell_id) for cell, _ in store.cells()] == [
        ("none", "c1-r1"),
        ("mtp", "c4-r1"),
        ("mtp", "c1-r2"),
    ]


def test_nothing_is_ever_overwritten(store: RunStore, tmp_path: Path) -> None:
    store.write_cell(_cell(), RECORDS, "", "")
    with pytest.raises(SpecdeckError, match="stored already"):
        store.write_cell(_cell(), [], "", "")
    assert store.records("mtp", "c1-r1") == RECORDS
    with pytest.raises(SpecdeckError, match="a run called r1 already"):
        RunStore.create(tmp_path, _run())


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "ü"])
def test_names_that_would_leave_the_folder_are_refused(store: RunStore, name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match="cannot be the name"):
        store.write_cell(_cell(arm=name), [], "", "")
    with pytest.raises(SpecdeckError, match="cannot be the name"):
        RunStore.create(tmp_path, _run(name))


def test_a_full_disk_is_told_with_a_fix_and_leaves_nothing_half_written(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_cell(_cell(), RECORDS, "", "")
    write = os.write
    room = 200

    def full(descriptor: int, data: bytes) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, bytes(data[:room]))
        room -= written
        return written

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SpecdeckError, match="No space left on device") as caught:
        store.write_cell(_cell(cell_id="c4-r1"), RECORDS * 50, "x" * 1000, "")
    assert "free some space" in str(caught.value)
    assert not store.has_cell("mtp", "c4-r1")
    assert [entry.name for entry in (store.path / "mtp").iterdir()] == ["c1-r1"]
    with pytest.raises(SpecdeckError, match=r"run\.json could not be stored"):
        store.save_run(_run(status="complete"))
    assert store.run().status == "running"
    monkeypatch.undo()
    store.write_cell(_cell(cell_id="c4-r1"), RECORDS, "", "")
    assert store.has_cell("mtp", "c4-r1")


def test_a_file_size_limit_of_the_process_is_told_like_a_full_disk(tmp_path: Path) -> None:
    code = f"""
        import resource, signal, sys
        from pathlib import Path
        import importlib.util
        spec = importlib.util.spec_from_file_location("t", {str(Path(__file__).resolve())!r})
        t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
        store = t.RunStore.create(Path({str(tmp_path)!r}), t._run())
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            store.write_cell(t._cell(), t.RECORDS, "x" * 100_000, "")
        except t.SpecdeckError as error:
            print(error)
        print(store.cells(), [p.name for p in (store.path / "mtp").iterdir()])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert "ulimit -f" in done.stdout
    assert done.stdout.endswith("[] []\n")


def test_a_folder_that_may_not_be_written_is_told(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_arguments: object) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(SpecdeckError, match="Permission denied") as caught:
        store.write_cell(_cell(), RECORDS, "", "")
    monkeypatch.undo()
    assert "writable" in str(caught.value)
    assert store.cells() == []


def test_a_results_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(SpecdeckError, match="could not be stored"):
        RunStore.create(tmp_path / "results", _run())


def test_a_run_whose_first_write_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SpecdeckError, match="No space"):
        RunStore.create(tmp_path, _run())
    assert list(tmp_path.iterdir()) == []


def test_the_newest_unfinished_run_of_the_same_experiment_is_found(tmp_path: Path) -> None:
    for run in (
        _run("old"),
        _run("new", created_at="2026-12-02T00:00:00+00:00", status="partial"),
        _run("done", created_at="2026-12-03T00:00:00+00:00", status="complete"),
        _run("else", created_at="2026-12-04T00:00:00+00:00", fingerprint="g"),
    ):
        RunStore.create(tmp_path, run).close()
    (tmp_path / "killed-at-birth").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_bytes(b"{")
    found = RunStore.find_resumable(tmp_path, "f")
    assert found is not None
    assert found.path.name == "new"
    assert RunStore.find_resumable(tmp_path, "h") is None
    assert RunStore.find_resumable(tmp_path / "nowhere", "f") is None


def test_what_a_killed_writer_left_is_removed_and_what_it_finished_stays(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, _run()) as store:
        store.write_cell(_cell(), RECORDS, "", "")
        half = store.path / "mtp" / ".writing-c4-r1"
        half.mkdir()
        (half / "cell.json").write_text("{")
        (store.path / ".writing-run.json").write_text("{")
    assert len(RunStore.open(tmp_path / "r1").cells()) == 1, "a reader neither minds nor removes it"
    assert half.exists()
    again = RunStore.open(tmp_path / "r1", write=True)
    assert sorted(path.name for path in again.removed) == [".writing-c4-r1", ".writing-run.json"]
    assert not half.exists()
    assert again.has_cell("mtp", "c1-r1")


def test_a_second_writer_is_refused_by_the_pid_of_the_first_until_that_one_is_killed(tmp_path: Path) -> None:
    RunStore.create(tmp_path, _run()).close()
    code = (
        "import sys, time; from pathlib import Path; from specdeck.results.store import RunStore\n"
        "store = RunStore.open(Path(sys.argv[1]), write=True); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "r1")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SpecdeckError, match=rf"pid {holder.pid}\)") as caught:
            RunStore.find_resumable(tmp_path, "f")
        assert f"kill {holder.pid}" in str(caught.value)
        assert RunStore.open(tmp_path / "r1").run() == _run(), "readers are welcome"
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        if holder.stdout:
            holder.stdout.close()
    found = RunStore.find_resumable(tmp_path, "f")
    assert found is not None
    found.close()


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("run.json", b"{", "truncated"),
        ("run.json", b"\xff\xfe", "malformed|invalid"),
        ("run.json", b'{"schema_version": 1}', "missing required field"),
        ("run.json", b'{"schema_version": %d}' % (SCHEMA_VERSION + 1), "newer specdeck"),
        ("run.json", b'{"schema_version": "1"}', "int"),
        ("mtp/c1-r1/cell.json", b'{"schema_version": %d}' % (SCHEMA_VERSION + 1), "newer specdeck"),
        ("mtp/c1-r1/cell.json", b'{"schema_version": 1, "extra": 0}', "extra"),
    ],
)
def test_damaged_and_newer_files_are_refused_by_name(store: RunStore, name: str, data: bytes, says: str) -> None:
    store.write_cell(_cell(), RECORDS, "", "")
    (store.path / name).write_bytes(data)
    with pytest.raises(SpecdeckError, match=says) as caught:
        RunStore.open(store.path).cells()
    assert caught.value.where == str(store.path / name)
    assert caught.value.fix


def test_a_damaged_record_is_refused_by_line(store: RunStore) -> None:
    store.write_cell(_cell(), RECORDS, "", "")
    path = store.path / "mtp" / "c1-r1" / "requests.jsonl"
    whole = path.read_bytes()
    for data, line in ((whole.replace(b'"b"', b"7"), 2), (whole[:-1], 2), (whole + b"\n", 3), (whole + b"\xff\n", 3)):
        path.write_bytes(data)
        with pytest.raises(SpecdeckError, match="damaged") as caught:
            store.records("mtp", "c1-r1")
        assert caught.value.where == f"{path}:{line}"
    path.unlink()
    with pytest.raises(SpecdeckError, match="cannot be read"):
        store.records("mtp", "c1-r1")


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecdeckError, match=r"run\.json is missing"):
        RunStore.open(tmp_path)


def test_a_run_without_cells_and_logs_is_removed_and_one_with_a_log_is_kept(tmp_path: Path) -> None:
    empty = RunStore.create(tmp_path, _run("empty"))
    empty.discard_if_empty()
    assert not empty.path.exists()
    logged = RunStore.create(tmp_path, _run("logged"))
    (logged.path / "mtp").mkdir()
    (logged.path / "mtp" / "server-1.log").write_text("why it failed\n")
    logged.discard_if_empty()
    assert logged.path.exists()
    logged.close()
