"""Helpers of tests about processes: a command around the stubborn server, and waiting with a bound."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from specdeck.engine.command import EngineCommand

if TYPE_CHECKING:
    from collections.abc import Callable

FAKE = Path(__file__).with_name("stubborn.py")


def fake_command(port: int, *words: str, env: dict[str, str] | None = None) -> EngineCommand:
    return EngineCommand(
        argv=(sys.executable, "-S", str(FAKE), str(port), *words),
        env=env or {},
        passed_on=(),
        served_model="fake",
        arm="none",
        host="127.0.0.1",
        port=port,
    )


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]
