"""Reads vLLM's log: the last lines, what is new, the line worth showing, and the first real error.

vLLM writes `(EngineCore pid=123) ERROR 11-30 22:35:14 [core.py:1104] text`; several processes share one file. A crash
is told several times: the root cause first, then by each process that waited for it.
"""

from __future__ import annotations

import re
import stat
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

TAIL_BYTES = 64 * 1024
HEAD_BYTES = 8 * 2**20
_SHOWN = 160
_PREFIX = re.compile(
    r"^(?:\((?P<process>\w[\w ]*?pid=\d+)\)\s)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s+\[[^\]]*\]\s?)?"
)
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|NotFound|Warning|Fault)\b(?::|$)"
)
_WRAPPERS = (
    "Engine core initialization failed",
    "Engine core proc",
    "EngineCore encountered an issue",
    "EngineDeadError",
    "WorkerProc initialization failed",
    "Worker failed with error",
    "Executor failed",
    "KeyboardInterrupt",
    "SystemExit",
    "CancelledError",
    "GracefulExit",
)
_DIRECT_CAUSE = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"
_PLAIN = re.compile(
    r"error: (?:unrecognized arguments|argument |the following arguments|ambiguous option)|No module named|"
    r"Fatal Python error|Segmentation fault|terminate called|Bus error|Illegal instruction|Killed$|core dumped|"
    r"No space left on device|cannot open shared object file"
)
_ADVICE = (
    (
        "No module named 'vllm",
        "name a Python that has vLLM with --python, or run: .venv/bin/python -m specdeck engine setup",
    ),
    ("unrecognized arguments", "this vLLM does not know that option: remove it from serve in the recipe"),
    ("No space left on device", "free some space (df -h) and try again"),
    ("Address already in use", "choose another port with --port"),
    ("out of memory", "lower serve.max_model_len, serve.max_num_seqs or serve.gpu_memory_utilization"),
    ("No available memory for the cache blocks", "lower serve.max_model_len, or raise serve.gpu_memory_utilization"),
    ("larger than the available KV cache memory", "lower serve.max_model_len, or raise serve.gpu_memory_utilization"),
    ("Free memory on device", "stop what else uses the GPU (nvidia-smi), or lower serve.gpu_memory_utilization"),
    ("does not support: DFlash", "DFlash2 needs the V2 model runner, which needs Triton: check the engine environment"),
    ("greater than the derived max_model_len", "lower serve.max_model_len in the recipe to what the checkpoint allows"),
    ("Error while deserializing header", "the weights are damaged: restore or download the checkpoint again"),
    ("Tried to load weights of size", "config.json and weights of a checkpoint do not belong together: restore both"),
    ("does not recognize this architecture", "this vLLM or its transformers is too old for the checkpoint"),
)
# The loader splits LD_PRELOAD at spaces, so what vLLM preloads is passed over in a folder whose name has one; the
# libraries are then loaded later, by Python.
_LOADER = "ERROR: ld.so: object "
_BORING = re.compile(
    rf"{_LOADER}|Route: |Available routes|^\s*$|█|▄|warnings\.warn|Warning: |^INFO: +\d|GET /(?:health|metrics)"
)


def split(line: str) -> tuple[str, str, str]:
    """Split a line into the process it comes from, its level and its text; the first two may be empty."""
    match = _PREFIX.match(line)
    assert match is not None
    return match["process"] or "", match["level"] or "", line[match.end() :].rstrip("\n")


def tail(path: Path, n: int) -> list[str]:
    """Return the last `n` lines of a log, reading at most 64 KiB; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(path.stat().st_mode):
                return []
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    # A progress bar redraws its line with carriage returns: the last state is what a terminal shows.
    return [line.rsplit("\r", 1)[-1] for line in text.split("\n") if line.strip()][-n:]


class LogReader:
    """Follows a log: `lines` holds what has been read (at most 8 MiB from the start), `new()` what came since."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._kept = 0
        self.lines: list[str] = []
        self.recent: deque[str] = deque(maxlen=400)

    def new(self) -> list[str]:
        """Return the complete lines that were written since the last call."""
        if self._path is None:
            return []
        try:
            if not stat.S_ISREG(self._path.stat().st_mode):
                return []
            with self._path.open("rb") as file:
                file.seek(self._offset)
                block = file.read(HEAD_BYTES)
        except OSError:
            return []
        self._offset += len(block)
        *complete, self._rest = (self._rest + block).split(b"\n")
        fresh = [line.decode("utf-8", "replace") for line in complete]
        self.recent.extend(fresh)
        if self._kept < HEAD_BYTES:
            self.lines += fresh
            self._kept += len(block)
        return fresh

    def all_lines(self) -> list[str]:
        """Return what has been read; of a very long log the beginning and the last 400 lines."""
        return self.lines if self._kept < HEAD_BYTES else [*self.lines, *self.recent]


def interesting(lines: Iterable[str]) -> str | None:
    """Return the last line that says something, shortened and without its prefix; None when there is none."""
    for line in reversed(list(lines)):
        text = split(line.rsplit("\r", 1)[-1])[2].strip()
        if text and not _BORING.search(text):
            return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return None


def first_error(lines: Sequence[str]) -> str | None:
    """Return the root cause of a crash, as one or a few lines, or None when the log shows no error.

    The first traceback that is not just the report of another process's failure counts. Of exceptions chained by
    `raise … from` the first is taken, of those chained by a failing handler the last.
    """
    streams: dict[str, list[tuple[int, str]]] = {}
    lines = [line for line in lines if not line.startswith(_LOADER)]
    for number, line in enumerate(lines):
        process, _, text = split(line)
        streams.setdefault(process, []).append((number, text))
    found = [cause for stream in streams.values() for cause in _causes(stream)]
    real = [cause for cause in sorted(found) if not _is_wrapper(cause[1])]
    plain = next(((number, split(line)[2]) for number, line in enumerate(lines) if _PLAIN.search(line)), None)
    if real:
        return real[0][1]
    if plain:
        return plain[1].strip()
    if found:
        return min(found)[1]
    for line in lines:
        _, level, text = split(line)
        if level in ("ERROR", "CRITICAL") and text.strip():
            return text.strip()
    return None


def _causes(stream: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return one cause for each chain of tracebacks of one process, with the number of its first line."""
    chains: list[tuple[int, str]] = []
    chain: list[str] = []
    began = 0
    joined = ""
    index = 0
    while index < len(stream):
        number, text = stream[index]
        index += 1
        if text.strip() in (_DIRECT_CAUSE, _DURING):
            joined = text.strip()
        elif text.startswith("Traceback (most recent call last)"):
            message, index = _message(stream, index)
            if message is None:
                continue
            if chain and not joined:
                chains.append((began, chain[-1]))
                chain = []
            if not chain:
                began, chain = number, [message]
            elif joined == _DURING:
                chain[-1] = message
            joined = ""
    if chain:
        chains.append((began, chain[0]))
    return chains


def _message(stream: Sequence[tuple[int, str]], index: int) -> tuple[str | None, int]:
    """Return the exception line that ends a traceback, with the lines of a longer message, and where it ended."""
    end = min(len(stream), index + 400)
    while index < end:
        text = stream[index][1]
        index += 1
        if _EXCEPTION.match(text):
            lines = [text.strip()]
            while index < end and len(lines) < 4 and _continues(stream[index][1]):
                lines.append(stream[index][1].strip())
                index += 1
            return "\n".join(lines), index
    return None, index


def _continues(text: str) -> bool:
    """Tell whether a line still belongs to a message of several lines, as pydantic writes them."""
    return (
        text.startswith("  ")
        and not text.lstrip().startswith(("File ", "For further information"))
        and bool(text.strip())
    )


def _is_wrapper(message: str) -> bool:
    return any(word in message for word in _WRAPPERS)


def advice(cause: str | None, exit_status: int | None = None) -> str | None:
    """Return what to do about a known cause; None for one that is not known."""
    for text, fix in _ADVICE:
        if cause and text.lower() in cause.lower():
            return fix
    if cause is None and exit_status == -9:
        return "it was killed, most likely for want of memory: see `dmesg | grep -i oom`, and free some"
    return None
