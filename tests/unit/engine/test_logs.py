"""The first real error of a crash is found in logs as vLLM writes them; the logs in logs/ are from real crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdeck.engine.logs import LogReader, advice, first_error, interesting, split, tail

LOGS = Path(__file__).with_name("logs")


def lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "begins", "fix"),
    [
        ("unknown-option", "api_server.py: error: unrecognized arguments: --no-such-option", "remove it from serve"),
        ("too-long", "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "lower"),
        ("torn-weights", "safetensors._safetensors_rust.SafetensorError: Error while deserializing header", "damaged"),
        (
            "wrong-shape",
            "AssertionError: Tried to load weights of size torch.Size([32, 128])",
            "do not belong together",
        ),
    ],
)
def test_the_root_cause_of_a_real_crash_is_found_and_has_advice(name: str, begins: str, fix: str) -> None:
    cause = first_error(lines(name))
    assert cause is not None
    assert cause.startswith(begins)
    assert fix in (advice(cause) or "")


def test_the_message_of_a_validation_error_is_kept_to_the_sentence_that_says_why() -> None:
    cause = first_error(lines("too-long")) or ""
    assert "User-specified max_model_len (200000) is greater than the derived max_model_len" in cause


@pytest.mark.parametrize("name", ["dflash2", "mtp", "none"])
def test_a_healthy_log_has_no_error(name: str) -> None:
    assert first_error(lines(name)) is None


def test_of_a_chain_raised_from_a_cause_the_cause_counts() -> None:
    log = """Traceback (most recent call last):
  File "a.py", line 1, in f
ValueError: bad head size 32

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in g
RuntimeError: could not build the layer"""
    assert first_error(log.splitlines()) == "ValueError: bad head size 32"


def test_of_a_chain_raised_while_handling_the_last_counts() -> None:
    log = """Traceback (most recent call last):
  File "a.py", line 1, in f
StopIteration

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 2, in g
importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"""
    assert first_error(log.splitlines()) == (
        "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"
    )


def test_two_processes_that_write_at_once_are_told_apart() -> None:
    log = """(Worker_TP0 pid=11) ERROR 12-01 04:48:03 [core.py:1] Traceback (most recent call last):
(Worker_TP1 pid=12) ERROR 12-01 04:48:03 [core.py:1] Traceback (most recent call last):
(Worker_TP0 pid=11) ERROR 12-01 04:48:03 [core.py:1]   File "a.py", line 1, in f
(Worker_TP1 pid=12) ERROR 12-01 04:48:03 [core.py:1]   File "a.py", line 1, in f
(Worker_TP0 pid=11) ERROR 12-01 04:48:03 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried 784 MiB
(Worker_TP1 pid=12) ERROR 12-01 04:48:03 [core.py:1] RuntimeError: Worker failed with error 'CUDA out of memory'"""
    cause = first_error(log.splitlines())
    assert cause == "torch.OutOfMemoryError: CUDA out of memory. Tried 784 MiB"
    assert "max_model_len" in (advice(cause) or "")


def test_only_the_wrapper_is_told_when_the_cause_was_not_written() -> None:
    log = [
        "Traceback (most recent call last):",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    assert first_error(log) == log[1]


@pytest.mark.parametrize(
    "line",
    [
        "Fatal Python error: Segmentation fault",
        "/usr/bin/python: No module named vllm",
        "terminate called after throwing an instance of 'c10::Error'",
        "(EngineCore pid=3) ERROR 12-01 04:48:03 [core.py:9] something else went wrong",
    ],
)
def test_a_crash_without_traceback_is_told_by_its_own_line(line: str) -> None:
    assert first_error(["(APIServer pid=1) INFO 12-01 04:48:00 [a.py:1] fine", line]) == split(line)[2]


def test_a_silent_kill_points_at_memory() -> None:
    assert first_error(["all good"]) is None
    assert "memory" in (advice(None, -9) or "")
    assert advice(None, 1) is None


def test_prefixes_are_split_from_the_text() -> None:
    line = "(EngineCore pid=26947) INFO 11-30 22:35:37 [core.py:133] Initializing"
    assert split(line) == ("EngineCore pid=26947", "INFO", "Initializing")
    assert split("Loading shards: 0%") == ("", "", "Loading shards: 0%")


def test_the_line_worth_showing_is_no_route_banner_or_access_log() -> None:
    log = [
        "(EngineCore pid=1) INFO 11-30 22:35:37 [core.py:133] Loading weights took 3 s",
        "(APIServer pid=2) INFO 11-30 22:36:11 [launcher.py:195] Route: /health, Methods: GET",
        'INFO:     127.0.0.1:47544 - "GET /health HTTP/1.1" 200 OK',
        "  warnings.warn(",
        "",
    ]
    assert interesting(log) == "Loading weights took 3 s"
    assert interesting([]) is None
    assert len(interesting(["x" * 1000]) or "") == 160


def test_the_tail_of_a_huge_log_is_read_without_reading_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("".join(f"line {i}\n" for i in range(200_000)))
    assert tail(path, 3) == ["line 199997", "line 199998", "line 199999"]
    assert tail(tmp_path / "missing.log", 3) == []


def test_a_progress_bar_is_shown_by_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"Loading: 0%\rLoading: 50%\rLoading: 100%\n\xff\xfe\n")
    assert tail(path, 2)[0] == "Loading: 100%"


def test_a_reader_gives_each_complete_line_once(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    reader = LogReader(path)
    assert reader.new() == []
    path.write_text("one\ntw")
    assert reader.new() == ["one"]
    with path.open("a") as file:
        file.write("o\nthree\n")
    assert reader.new() == ["two", "three"]
    assert reader.new() == []
    assert reader.lines == ["one", "two", "three"]


def test_a_reader_keeps_the_end_of_a_log_that_never_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdeck.engine.logs.HEAD_BYTES", 100)
    path = tmp_path / "server.log"
    path.write_text("".join(f"line {i}\n" for i in range(100)))
    reader = LogReader(path)
    while reader.new():
        pass
    assert len(reader.lines) < 100
    assert reader.all_lines()[-1] == "line 99"


def test_a_library_the_loader_passes_over_is_neither_progress_nor_the_cause() -> None:
    loader = "ERROR: ld.so: object 'b/lib/libgomp.so.1' from LD_PRELOAD cannot be preloaded: ignored."
    assert interesting(["INFO loading", loader]) == "INFO loading"
    assert (
        first_error([loader, "Traceback (most recent call last):", "ValueError: the cause"]) == "ValueError: the cause"
    )
    assert first_error([loader]) is None
