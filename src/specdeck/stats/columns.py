"""A cell's requests as columns, made in one pass over its records: a million of them never stand in memory at once.

Inside the arrays NaN stands for "not available"; it never leaves this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, overload

import numpy as np

from specdeck.results.schema import RequestRecord
from specdeck.stats.observations import Observations
from specdeck.stats.tokens import flat_token_gaps, peak_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from specdeck.results.schema import Cell
    from specdeck.stats.bootstrap import FloatArray, IntArray

BATCH = 2_000
"""Records that stand in memory as objects."""
_TIMES = ("scheduled_s", "first_token_s", "last_token_s", "end_s", "completion_tokens")


@dataclass(frozen=True)
class CellColumns:
    """What figures need of a cell's requests.

    Attributes:
        seen: the answered requests, in the order of their index.
        total, failed: all requests, and those with an error.
        place: of each answered request, its place among the cell's records.
        hashes: text hash (hex) of each answered request; empty where there is none.
        gaps_s: times between chunks of one request, over answered requests.
        itl_s: times between tokens, one value a token (tokens.py); None where a chunk's tokens are unknown.
        peak_tok_s: most tokens in any second, failed requests' chunks included.
    """

    seen: Observations
    total: int
    failed: int
    place: IntArray
    hashes: NDArray[np.bytes_]
    gaps_s: FloatArray
    itl_s: FloatArray | None
    peak_tok_s: float | None


class Requests(Sequence[RequestRecord]):
    """A cell's records: their columns are kept, the records themselves are read again when somebody asks for them."""

    def __init__(self, columns: CellColumns, read: Callable[[], Iterable[RequestRecord]]) -> None:
        self.columns = columns
        self._read = read

    @classmethod
    def of(cls, cell: Cell, records: Sequence[RequestRecord]) -> Requests:
        """The columns of records that are in memory anyway."""
        return records if isinstance(records, Requests) else cls(columns(cell, records), lambda: records)

    def __len__(self) -> int:
        return self.columns.total

    def __iter__(self) -> Iterator[RequestRecord]:
        return iter(self._read())

    @overload
    def __getitem__(self, index: int) -> RequestRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[RequestRecord]: ...
    def __getitem__(self, index: int | slice) -> RequestRecord | list[RequestRecord]:
        """Read all of them for it: iterate where more than one is wanted."""
        return list(self)[index]


@dataclass
class _Part:
    """Columns of a batch. The flat arrays hold the chunks of answered requests, then those of failed ones."""

    index: IntArray
    failed: NDArray[np.bool_]
    prompts: list[str]
    categories: list[str]
    values: FloatArray
    spec: FloatArray
    histograms: list[tuple[int, ...]]
    whole: NDArray[np.bool_]
    hashes: NDArray[np.bytes_]
    stamps: FloatArray
    counts: IntArray
    lengths: IntArray
    answered_chunks: int
    answered_counted: bool
    counted: bool


def columns(cell: Cell, records: Iterable[RequestRecord]) -> CellColumns:
    """Reduce a cell's records, in any order, to columns."""
    source = iter(records)
    parts = []
    while batch := list(islice(source, BATCH)):
        parts.append(_part(batch))
    return _joined(cell, parts or [_part([])])


def _part(batch: list[RequestRecord]) -> _Part:
    kept = [record for record in batch if record.error is None]
    ordered = kept + [record for record in batch if record.error is not None]
    known = [r.chunk_tokens is not None and len(r.chunk_tokens) == len(r.chunk_s) for r in ordered]
    specs = [record.spec for record in kept]
    lengths = np.array([len(record.chunk_s) for record in ordered], dtype=np.int64)
    total = int(lengths.sum())
    told = all(known[i] or not lengths[i] for i in range(len(ordered)))
    return _Part(
        index=np.array([record.index for record in batch], dtype=np.int64),
        failed=np.array([record.error is not None for record in batch], dtype=bool),
        prompts=[record.prompt_id for record in batch],
        categories=[record.category for record in kept],
        values=np.array(
            [(r.scheduled_s, r.first_token_s, r.last_token_s, r.end_s, r.completion_tokens) for r in kept],
            dtype=np.float64,
        ).reshape(len(kept), len(_TIMES)),
        spec=np.array(
            [
                (s.num_spec_steps, s.num_accepted_draft_tokens, s.num_draft_tokens) if s else (None, None, None)
                for s in specs
            ],
            dtype=np.float64,
        ).reshape(len(kept), 3),
        histograms=[s.acceptance_histogram if s is not None else () for s in specs],
        whole=np.array([s is not None and sum(s.acceptance_histogram) == s.num_spec_steps for s in specs], dtype=bool),
        hashes=np.array([record.text_sha256 or "" for record in kept], dtype="S64"),
        stamps=np.fromiter(chain.from_iterable(r.chunk_s for r in ordered), dtype=np.float64, count=total),
        counts=np.fromiter(
            chain.from_iterable(r.chunk_tokens or () for r in (ordered if told else kept)), dtype=np.int64
        ),
        lengths=lengths,
        answered_chunks=int(lengths[: len(kept)].sum()),
        answered_counted=all(known[: len(kept)]),
        counted=told,
    )


def _joined(cell: Cell, parts: list[_Part]) -> CellColumns:
    failed = np.concatenate([part.failed for part in parts])
    index = np.concatenate([part.index for part in parts])
    names, prompt = coded([name for part in parts for name in part.prompts])
    occurrence = _occurrence(index, prompt)
    place = np.flatnonzero(~failed)
    order = np.argsort(index[place], kind="stable")
    place = place[order]
    values = np.concatenate([part.values for part in parts])[order]
    spec = np.concatenate([part.spec for part in parts])[order]
    category_names, category = coded([name for part in parts for name in part.categories])
    scheduled, first, last, end, tokens = values.T
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(tokens >= 2, (last - first) / (tokens - 1), np.nan)
    present, compact = np.unique(prompt[place], return_inverse=True)
    seen = Observations(
        concurrency=np.full(len(place), cell.concurrency),
        round=np.full(len(place), cell.round),
        occurrence=occurrence[place],
        prompts=tuple(names[i] for i in present),
        prompt=compact.astype(np.int64),
        category_names=tuple(category_names),
        category=category[order],
        tokens=tokens,
        ttft_s=first - scheduled,
        tpot_s=tpot,
        e2e_s=end - scheduled,
        steps=spec[:, 0],
        accepted=spec[:, 1],
        drafted=spec[:, 2],
        accepted_at=_accepted_at(parts)[order],
    )
    return CellColumns(
        seen=seen,
        total=len(failed),
        failed=int(failed.sum()),
        place=place,
        hashes=np.concatenate([part.hashes for part in parts])[order],
        gaps_s=np.concatenate([_gaps(part) for part in parts]),
        itl_s=_token_gaps(parts),
        peak_tok_s=_peak(parts),
    )


def coded(names: Sequence[str]) -> tuple[list[str], IntArray]:
    """Distinct names, sorted, and the number of each name among them."""
    distinct = sorted(set(names))
    number = {name: i for i, name in enumerate(distinct)}
    return distinct, np.fromiter((number[name] for name in names), dtype=np.int64, count=len(names))


def _occurrence(index: IntArray, prompt: IntArray) -> IntArray:
    """How many requests with a smaller index have the same prompt."""
    order = np.lexsort((index, prompt))
    ranked = prompt[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, dtype=np.int64)
    counted = np.arange(len(ranked)) - np.repeat(starts, np.diff(np.r_[starts, len(ranked)]))
    found = np.empty(len(prompt), dtype=np.int64)
    found[order] = counted
    return found


def _accepted_at(parts: list[_Part]) -> FloatArray:
    """Drafts with position 1, 2, … accepted: a step with k accepted tokens accepted positions 1 to k.

    NaN without a payload, and where a histogram does not count every step.
    """
    histograms = [histogram for part in parts for histogram in part.histograms]
    lengths = np.array([len(histogram) for histogram in histograms], dtype=np.int64)
    table = np.zeros((len(histograms), max(int(lengths.max(initial=0)), 1)))
    inside = np.arange(table.shape[1]) < lengths[:, None]
    table[inside] = np.fromiter(chain.from_iterable(histograms), dtype=np.float64, count=int(lengths.sum()))
    at: FloatArray = np.cumsum(table[:, ::-1], axis=1)[:, ::-1][:, 1:]
    at[~np.concatenate([part.whole for part in parts])] = np.nan
    return at


def _owner(part: _Part) -> IntArray:
    return np.repeat(np.arange(len(part.lengths)), part.lengths)


def _gaps(part: _Part) -> FloatArray:
    stamps, owner = part.stamps[: part.answered_chunks], _owner(part)[: part.answered_chunks]
    gaps: FloatArray = np.diff(stamps)[owner[1:] == owner[:-1]]
    return gaps


def _token_gaps(parts: list[_Part]) -> FloatArray | None:
    if not all(part.answered_counted for part in parts):
        return None
    found = []
    for part in parts:
        until = part.answered_chunks
        found.append(flat_token_gaps(_owner(part)[:until], part.stamps[:until], part.counts[:until]))
    return np.concatenate(found)


def _peak(parts: list[_Part]) -> float | None:
    if not all(part.counted for part in parts):
        return None
    return peak_rate(np.concatenate([p.stamps for p in parts]), np.concatenate([p.counts for p in parts]))
