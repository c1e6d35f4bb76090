"""What this client can do on this machine, found out before the first cell against a server that only sends.

Takes two or three seconds, once: the answer is kept in the user's cache folder for the machine and the version.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import importlib.metadata
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target
from specdeck.load.loop import run_load
from specdeck.load.loopback.process import running_loopback
from specdeck.load.loopback.shape import MODEL, Shape
from specdeck.load.prompts import Prompt
from specdeck.results.atomic import replace_file
from specdeck.results.schema import Sampling, Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.load.loop import LoadOutcome
    from specdeck.load.loopback.process import Loopback
    from specdeck.load.loopback.server import Truth

SELF_TEST = "client_self_test"
"""Key in a run's provenance."""

STREAMS = 64
PACED = Shape(tokens="4", interval_ms=20, spread=True)
UNPACED = Shape(tokens="4", ttft_ms=0, interval_ms=0)
PACED_TOKENS, UNPACED_TOKENS = 200, 1200
TIMEOUT_S = 60.0


class SelfTest(Strict, frozen=True, kw_only=True):
    """How the client fared with 64 streams.

    Attributes:
        chunks_per_s: read by one core from streams as fast as they come: a lower bound, since the server's core sends.
        ttft_error_mean_ms: reported minus true time to first token, streams of a chunk every 20 ms.
        ttft_error_max_ms: the largest of 64.
        gap_error_p99_ms: by how much a gap between two chunks is off, as a size.
        loop_lag_p99_ms: see ClientHealth.
        measured_at: when, ISO 8601.
    """

    chunks_per_s: float
    ttft_error_mean_ms: float
    ttft_error_max_ms: float
    gap_error_p99_ms: float
    loop_lag_p99_ms: float | None
    measured_at: str

    def line(self) -> str:
        """The figures in one line."""
        return (
            f"{self.chunks_per_s / 1000:.0f}k chunks/s on one core; at {STREAMS} streams TTFT is off by "
            f"{self.ttft_error_mean_ms:.1f} ms (mean), gaps by {self.gap_error_p99_ms:.1f} ms (p99)"
        )


async def self_test(cache: Path | None = None) -> SelfTest:
    """Try the client, or return what was found before on this machine with this version.

    Args:
        cache: folder for the answer; default: specdeck's in the user's cache folder.

    Raises:
        SpecdeckError: the loopback server does not start, or does not answer.
    """
    path = (cache or _cache_folder()) / f"self-test-{_key()}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=SelfTest)
    except (OSError, msgspec.DecodeError):
        pass  # absent, or damaged: found out again
    found = await _try_client()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, msgspec.json.encode(found))
    except OSError:
        pass  # a home that cannot be written only means that the next run tries again
    return found


async def _try_client() -> SelfTest:
    with running_loopback() as loopback:
        paced, told = await _load(loopback, PACED, PACED_TOKENS)
        unpaced, _ = await _load(loopback, UNPACED, UNPACED_TOKENS)
    chunks = sum(len(record.chunk_s) for record in unpaced.records)
    late, off = errors_ms(paced, told)
    return SelfTest(
        chunks_per_s=chunks / unpaced.duration_s,
        ttft_error_mean_ms=sum(late) / len(late),
        ttft_error_max_ms=max(late),
        gap_error_p99_ms=sorted(off)[int(len(off) * 0.99)],
        loop_lag_p99_ms=paced.loop_lag_p99_ms,
        measured_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )


async def _load(loopback: Loopback, shape: Shape, tokens: int) -> tuple[LoadOutcome, dict[str, Truth]]:
    outcome = await run_load(
        Target(loopback.url(shape), MODEL),
        [Prompt(id=f"self-test-{number}", category="", prompt="x") for number in range(STREAMS)],
        concurrency=STREAMS,
        sampling=Sampling(temperature=0.0, max_tokens=tokens),
        request_timeout_s=TIMEOUT_S,
    )
    for record in outcome.records:
        if record.error is not None:
            raise SpecdeckError(
                f"a request to our own server failed: {record.error.message}",
                fix="see whether something on this machine stops connections to 127.0.0.1",
            )
    return outcome, await asyncio.to_thread(loopback.truths)


def errors_ms(outcome: LoadOutcome, told: dict[str, Truth]) -> tuple[Sequence[float], Sequence[float]]:
    """By how much times to first token are late, and by how much gaps between chunks are off, in milliseconds."""
    late: list[float] = []
    off: list[float] = []
    for record in outcome.records:
        true = told[record.request_id]
        late.append(1000 * (record.chunk_s[0] - record.scheduled_s - (true.sent[0] - true.received)))
        stamps, sent = record.chunk_s, true.sent
        off += [1000 * abs(stamps[i] - stamps[i - 1] - (sent[i] - sent[i - 1])) for i in range(1, len(sent))]
    return late, off


def _key() -> str:
    """What the answer holds for: this machine, this Python, this version."""
    parts = [
        *platform.uname(), platform.python_version(), len(os.sched_getaffinity(0)),
        importlib.metadata.version("specdeck"), importlib.metadata.version("uvloop"),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _cache_folder() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specdeck"
    except RuntimeError:  # a user without a home, as in a container
        return Path(tempfile.gettempdir()) / f"specdeck-{os.getuid()}"
