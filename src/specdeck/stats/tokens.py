"""Times and rates of single tokens, from chunks that carry several: inter-token latency and the peak rate.

What arrives at one moment is one arrival. An arrival of k tokens, dt after the one before it, is k gaps of dt / k: the
gaps of a request sum to the time between its first and its last arrival, and every token counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.results.schema import RequestRecord
    from specdeck.stats.bootstrap import FloatArray, IntArray

PEAK_WINDOW_S = 1.0


def token_gaps(record: RequestRecord) -> FloatArray | None:
    """Seconds a token after the first arrival, one value a token; None where tokens a chunk are unknown.

    Tokens of the first arrival have no gap: nothing came before them.
    """
    if record.chunk_tokens is None or len(record.chunk_tokens) != len(record.chunk_s):
        return None
    stamps, counts = np.asarray(record.chunk_s), np.asarray(record.chunk_tokens, dtype=np.int64)
    return flat_token_gaps(np.zeros(len(stamps), dtype=np.int64), stamps, counts)


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


def flat_token_gaps(owner: IntArray, stamps: FloatArray, counts: IntArray) -> FloatArray:
    """The gaps of many requests at once, from chunks that stand request by request.

    Args:
        owner: shape (chunks,), number of each chunk's request, never falling.
        stamps: shape (chunks,), when each chunk arrived, in any order within a request.
        counts: shape (chunks,), tokens in each; chunks without a token are no arrival.
    """
    there = counts > 0
    owner, stamps, counts = owner[there], stamps[there], counts[there]
    if not len(owner):
        return np.empty(0)
    if (np.diff(stamps)[owner[1:] == owner[:-1]] < 0).any():
        order = np.lexsort((stamps, owner))
        stamps, counts = stamps[order], counts[order]
    starts = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]) | (stamps[1:] != stamps[:-1])])
    tokens, moments, request = np.add.reduceat(counts, starts), stamps[starts], owner[starts]
    later = np.flatnonzero(request[1:] == request[:-1]) + 1
    return np.repeat((moments[later] - moments[later - 1]) / tokens[later], tokens[later])


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
    return peak_rate(np.array(stamps, dtype=np.float64), np.array(tokens, dtype=np.int64), window_s)


def peak_rate(stamps: FloatArray, tokens: IntArray, window_s: float = PEAK_WINDOW_S) -> float | None:
    """As `peak_tokens_per_s`, of chunks in any order."""
    if not len(stamps) or stamps.max() - stamps.min() < window_s:
        return None
    order = np.argsort(stamps, kind="stable")
    moments = stamps[order]
    before = np.concatenate([[0], np.cumsum(tokens[order])])
    ends = np.searchsorted(moments, moments + window_s, side="left")
    return float((before[ends] - before[: len(moments)]).max() / window_s)
