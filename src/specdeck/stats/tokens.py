"""Times and rates of single tokens, from chunks that carry several: inter-token latency and the peak rate.

What arrives at one moment is one arrival. An arrival of k tokens, dt after the one before it, is k gaps of dt / k: the
gaps of a request sum to the time between its first and its last arrival, and every token counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.results.schema import RequestRecord
    from specdeck.stats.bootstrap import FloatArray

PEAK_WINDOW_S = 1.0


def token_gaps(record: RequestRecord) -> FloatArray | None:
    """Seconds a token after the first arrival, one value a token; None where tokens a chunk are unknown.

    Tokens of the first arrival have no gap: nothing came before them.
    """
    if record.chunk_tokens is None or len(record.chunk_tokens) != len(record.chunk_s):
        return None
    moments, counts = _arrivals(record.chunk_s, record.chunk_tokens)
    return np.repeat(np.diff(moments) / counts[1:], counts[1:])


def all_token_gaps(records: Iterable[RequestRecord]) -> FloatArray:
    """The gaps of all answered requests; empty when any of them has chunks of unknown size."""
    gaps: list[FloatArray] = []
    for record in records:
        if record.error is not None:
            continue
        found = token_gaps(record)
        if found is None:
            return np.empty(0)
        gaps.append(found)
    return np.concatenate(gaps) if gaps else np.empty(0)


def peak_tokens_per_s(records: Iterable[RequestRecord], window_s: float = PEAK_WINDOW_S) -> float | None:
    """Largest token rate over any `window_s` of a cell, wherever the window starts.

    `vllm bench serve` looks at whole seconds from its start only, so its `max_output_tokens_per_s` is at most this.

    Returns:
        Tokens a second; None where tokens a chunk are unknown or the chunks span less than the window.
    """
    stamps: list[float] = []
    tokens: list[int] = []
    for record in records:
        if not record.chunk_s:
            continue
        if record.chunk_tokens is None or len(record.chunk_tokens) != len(record.chunk_s):
            return None
        stamps += record.chunk_s
        tokens += record.chunk_tokens
    if not stamps or max(stamps) - min(stamps) < window_s:
        return None
    order = np.argsort(stamps, kind="stable")
    moments = np.asarray(stamps)[order]
    before = np.concatenate([[0], np.cumsum(np.asarray(tokens)[order])])
    ends = np.searchsorted(moments, moments + window_s, side="left")
    return float((before[ends] - before[: len(moments)]).max() / window_s)


def _arrivals(stamps: Sequence[float], tokens: Sequence[int]) -> tuple[FloatArray, np.typing.NDArray[np.int64]]:
    """Moments at which tokens arrived, and how many; chunks without a token are left out."""
    counts = np.asarray(tokens, dtype=np.int64)
    moments, place = np.unique(np.asarray(stamps, dtype=np.float64)[counts > 0], return_inverse=True)
    return moments, np.bincount(place, weights=counts[counts > 0], minlength=len(moments)).astype(np.int64)
