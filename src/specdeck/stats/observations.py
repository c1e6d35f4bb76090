"""The answered requests of one arm at one concurrency as columns, so that figures are sums over arrays.

Inside the arrays NaN stands for "not available"; it never leaves this package.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from specdeck.stats.tokens import all_token_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from specdeck.results.schema import Cell, RequestRecord, SpecPayload
    from specdeck.stats.bootstrap import FloatArray, IntArray

Key = tuple[int, int, str, int]
NAN = float("nan")


@dataclass(frozen=True)
class Observations:
    """Answered requests (no error) of some cells. All columns have one entry a request.

    Attributes:
        keys: (concurrency, round, prompt id, how many times that prompt came before in the cell): what pairs arms.
        tokens: completion tokens by usage.
        ttft_s: first token minus scheduled.
        tpot_s: (last token - first token) / (tokens - 1), for two tokens or more.
        e2e_s: end minus scheduled.
        steps, accepted, drafted: the request's drafts, accepted and drafted tokens by its payload.
        accepted_at: shape (n, positions), drafts of the request whose position i was accepted.
        gaps_s: times between chunks of one request, over all requests.
        itl_s: times between tokens of one request, one value a token (see tokens.py), over all requests.
    """

    keys: tuple[Key, ...]
    categories: tuple[str, ...]
    tokens: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    steps: FloatArray
    accepted: FloatArray
    drafted: FloatArray
    accepted_at: FloatArray
    gaps_s: FloatArray
    itl_s: FloatArray

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """Distinct prompt ids, sorted."""
        return tuple(sorted({key[2] for key in self.keys}))

    @cached_property
    def prompt(self) -> IntArray:
        """Index into `prompts` of each request."""
        number = {name: i for i, name in enumerate(self.prompts)}
        return np.array([number[key[2]] for key in self.keys], dtype=np.int64)

    def where(self, mask: Iterable[bool] | NDArray[np.bool_]) -> Observations:
        """Keep the requests for which mask is true (gaps are dropped: they are not kept by request)."""
        keep = np.fromiter(mask, dtype=bool, count=len(self))
        index = np.flatnonzero(keep)
        return Observations(
            keys=tuple(self.keys[i] for i in index),
            categories=tuple(self.categories[i] for i in index),
            tokens=self.tokens[keep],
            ttft_s=self.ttft_s[keep],
            tpot_s=self.tpot_s[keep],
            e2e_s=self.e2e_s[keep],
            steps=self.steps[keep],
            accepted=self.accepted[keep],
            drafted=self.drafted[keep],
            accepted_at=self.accepted_at[keep],
            gaps_s=np.empty(0),
            itl_s=np.empty(0),
        )

    def per_prompt(self, *columns: FloatArray) -> FloatArray:
        """Sum columns over each prompt's requests: (prompts, columns), in the order of `prompts`."""
        sums = [np.bincount(self.prompt, weights=column, minlength=len(self.prompts)) for column in columns]
        return np.stack(sums, axis=1)


def observe(cells: Sequence[tuple[Cell, Sequence[RequestRecord]]]) -> Observations:
    """Turn the answered requests of cells into columns. Requests with an error are left out."""
    keys: list[Key] = []
    kept: list[RequestRecord] = []
    for cell, records in cells:
        seen: Counter[str] = Counter()
        for record in sorted(records, key=lambda r: r.index):
            occurrence = seen[record.prompt_id]
            seen[record.prompt_id] += 1
            if record.error is None:
                keys.append((cell.concurrency, cell.round, record.prompt_id, occurrence))
                kept.append(record)
    width = max((len(r.spec.acceptance_histogram) - 1 for r in kept if r.spec is not None), default=0)
    gaps = [np.diff(np.asarray(r.chunk_s)) for r in kept if len(r.chunk_s) > 1]
    return Observations(
        keys=tuple(keys),
        categories=tuple(r.category for r in kept),
        tokens=_column(r.completion_tokens for r in kept),
        ttft_s=_column(_minus(r.first_token_s, r.scheduled_s) for r in kept),
        tpot_s=_column(time_per_output_token(r) for r in kept),
        e2e_s=_column(r.end_s - r.scheduled_s for r in kept),
        steps=_column(r.spec.num_spec_steps if r.spec else None for r in kept),
        accepted=_column(r.spec.num_accepted_draft_tokens if r.spec else None for r in kept),
        drafted=_column(r.spec.num_draft_tokens if r.spec else None for r in kept),
        accepted_at=np.array([_accepted_at(r.spec, max(width, 0)) for r in kept]).reshape(len(kept), max(width, 0)),
        gaps_s=np.concatenate(gaps) if gaps else np.empty(0),
        itl_s=all_token_gaps(kept),
    )


def time_per_output_token(record: RequestRecord) -> float | None:
    """Seconds a token after the first: (last token - first token) / (completion tokens - 1), None below two tokens."""
    span = _minus(record.last_token_s, record.first_token_s)
    if span is None or record.completion_tokens is None or record.completion_tokens < 2:
        return None
    return span / (record.completion_tokens - 1)


def _accepted_at(spec: SpecPayload | None, width: int) -> list[float]:
    """How many drafts had position 1..width accepted; a step with k accepted tokens accepted positions 1 to k."""
    if spec is None or sum(spec.acceptance_histogram) != spec.num_spec_steps:
        return [NAN] * width
    histogram = spec.acceptance_histogram + (0,) * (width + 1 - len(spec.acceptance_histogram))
    return [float(sum(histogram[i:])) for i in range(1, width + 1)]


def _column(values: Iterable[float | None]) -> FloatArray:
    return np.array([NAN if value is None else value for value in values], dtype=np.float64)


def _minus(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else later - earlier


def known(column: FloatArray) -> FloatArray:
    """The values that are available."""
    return column[~np.isnan(column)]


def total(column: FloatArray) -> float | None:
    """Sum of a column, None when any value is missing or there is none: a partial sum would be a wrong one."""
    return None if len(column) == 0 or np.isnan(column).any() else float(column.sum())


def quotient(numerator: float | None, denominator: float | None) -> float | None:
    """Numerator / denominator, None where either is missing or the denominator is 0."""
    return None if numerator is None or denominator is None or denominator == 0 else numerator / denominator
