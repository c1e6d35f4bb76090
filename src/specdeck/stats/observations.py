"""The answered requests of one arm at one concurrency as columns, so that figures are sums over arrays.

Inside the arrays NaN stands for "not available"; it never leaves this package.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from specdeck.results.schema import Cell, RequestRecord
    from specdeck.stats.bootstrap import FloatArray, IntArray

    Measured = Sequence[tuple[Cell, Sequence[RequestRecord]]]

Key = tuple[int, int, str, int]


@dataclass(frozen=True)
class Observations:
    """Answered requests (no error) of some cells. All columns have one entry a request.

    Attributes:
        concurrency, round: of the request's cell.
        occurrence: how many times its prompt came before in the cell, failed requests included.
        prompts: distinct prompt ids, sorted; each has a request.
        prompt: index into `prompts`.
        category_names: distinct categories, some perhaps without a request.
        category: index into `category_names`.
        tokens: completion tokens by usage.
        ttft_s: first token minus scheduled.
        tpot_s: (last token - first token) / (tokens - 1), for two tokens or more.
        e2e_s: end minus scheduled.
        steps, accepted, drafted: the request's drafts, accepted and drafted tokens by its payload.
        accepted_at: shape (n, positions), drafts of the request whose position i was accepted.
    """

    concurrency: IntArray
    round: IntArray
    occurrence: IntArray
    prompts: tuple[str, ...]
    prompt: IntArray
    category_names: tuple[str, ...]
    category: IntArray
    tokens: FloatArray
    ttft_s: FloatArray
    tpot_s: FloatArray
    e2e_s: FloatArray
    steps: FloatArray
    accepted: FloatArray
    drafted: FloatArray
    accepted_at: FloatArray

    def __len__(self) -> int:
        return len(self.prompt)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """(concurrency, round, prompt id, occurrence) of each request: what pairs arms."""
        columns = (self.concurrency.tolist(), self.round.tolist(), self.prompt.tolist(), self.occurrence.tolist())
        return tuple((at, number, self.prompts[i], again) for at, number, i, again in zip(*columns, strict=True))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The categories that have a request, in the order they came."""
        present, first = np.unique(self.category, return_index=True)
        return tuple(self.category_names[i] for i in present[np.argsort(first)])

    def where(self, mask: NDArray[np.bool_]) -> Observations:
        """Keep the requests for which mask, shape (n,), is true."""
        kept = {
            column.name: getattr(self, column.name)[mask]
            for column in fields(self)
            if column.name not in ("prompts", "category_names")
        }
        present, kept["prompt"] = np.unique(kept["prompt"], return_inverse=True)
        names = self.prompts if len(present) == len(self.prompts) else tuple(self.prompts[i] for i in present)
        return Observations(prompts=names, category_names=self.category_names, **kept)

    def of_category(self, name: str) -> Observations:
        """The requests of a category."""
        number = self.category_names.index(name) if name in self.category_names else -1
        return self.where(self.category == number)

    def of_prompts(self, names: Collection[str]) -> Observations:
        """The requests for some prompts."""
        wanted = np.fromiter((name in names for name in self.prompts), dtype=bool, count=len(self.prompts))
        return self.where(wanted[self.prompt] if len(self) else np.zeros(0, dtype=bool))

    def per_prompt(self, *columns: FloatArray) -> FloatArray:
        """Sum columns over each prompt's requests: (prompts, columns), in the order of `prompts`."""
        sums = [np.bincount(self.prompt, weights=column, minlength=len(self.prompts)) for column in columns]
        return np.stack(sums, axis=1)


def observe(cells: Measured) -> Observations:
    """Turn the answered requests of cells into columns. Requests with an error are left out."""
    from specdeck.stats.columns import Requests  # noqa: PLC0415 - columns are made of observations

    return join([Requests.of(cell, records).columns.seen for cell, records in cells])


def join(parts: Sequence[Observations]) -> Observations:
    """All requests of several observations, in their order."""
    if len(parts) == 1:
        return parts[0]
    prompts, prompt = _recoded([part.prompts for part in parts], [part.prompt for part in parts])
    categories, category = _recoded([part.category_names for part in parts], [part.category for part in parts])
    width = max((part.accepted_at.shape[1] for part in parts), default=0)
    wide = [_widened(part.accepted_at, width) for part in parts]
    others = [
        column.name
        for column in fields(Observations)
        if column.name not in ("prompts", "prompt", "category_names", "category", "accepted_at")
    ]
    whole = {name: np.concatenate([np.empty(0), *(getattr(part, name) for part in parts)]) for name in others}
    for name in ("concurrency", "round", "occurrence"):
        whole[name] = whole[name].astype(np.int64)
    return Observations(
        prompts=prompts,
        prompt=prompt,
        category_names=categories,
        category=category,
        accepted_at=np.concatenate(wide) if wide else np.zeros((0, 0)),
        **whole,
    )


def _recoded(names: Sequence[tuple[str, ...]], codes: Sequence[IntArray]) -> tuple[tuple[str, ...], IntArray]:
    """One table of names for all, sorted, and the codes in it."""
    nothing = np.zeros(0, dtype=np.int64)
    if all(table == names[0] for table in names[1:]):
        return (names[0] if names else ()), np.concatenate([nothing, *codes])
    distinct = sorted(set().union(*names))
    number = {name: i for i, name in enumerate(distinct)}
    tables = [np.array([number[name] for name in table], dtype=np.int64) for table in names]
    return tuple(distinct), np.concatenate([nothing, *(t[c] for t, c in zip(tables, codes, strict=True))])


def _widened(accepted_at: FloatArray, width: int) -> FloatArray:
    """With more positions: none of the request's drafts had them accepted; NaN where nothing is known."""
    rows, have = accepted_at.shape
    if have == width:
        return accepted_at
    more = np.zeros((rows, width - have))
    return np.hstack([accepted_at, more])


def pairs(ours: Observations, theirs: Observations) -> tuple[IntArray, IntArray]:
    """Where the requests of equal keys stand in each: arrays of equal length, sorted by key."""
    number = {name: i for i, name in enumerate(sorted({*ours.prompts, *theirs.prompts}))}
    coded = []
    for side in (ours, theirs):
        table = np.array([number[name] for name in side.prompts], dtype=np.int64)
        prompt = table[side.prompt] if len(side) else side.prompt
        coded.append(np.stack([side.concurrency, side.round, prompt, side.occurrence], axis=1))
    both = np.concatenate(coded)
    spans = both.max(axis=0, initial=0) + 1
    flat = np.zeros(len(both), dtype=np.int64)
    for column, span in zip(both.T, spans, strict=True):
        flat = flat * int(span) + column
    _, a, b = np.intersect1d(flat[: len(ours)], flat[len(ours) :], assume_unique=True, return_indices=True)
    return a, b


def masked(places: IntArray, length: int) -> NDArray[np.bool_]:
    """A mask, shape (length,), that is true at some places."""
    mask = np.zeros(length, dtype=bool)
    mask[places] = True
    return mask


def time_per_output_token(record: RequestRecord) -> float | None:
    """Seconds a token after the first: (last token - first token) / (completion tokens - 1), None below two tokens."""
    span = _minus(record.last_token_s, record.first_token_s)
    if span is None or record.completion_tokens is None or record.completion_tokens < 2:
        return None
    return span / (record.completion_tokens - 1)


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
