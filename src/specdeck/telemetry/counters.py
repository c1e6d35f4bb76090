"""vLLM's counters at one moment, and what they counted between two: summed over engines, for one model.

A series that is absent is None, not 0. A counter that fell means a restart; it is reported, never clamped.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from specdeck.errors import SpecdeckError
from specdeck.results.schema import CounterDelta, KvCache
from specdeck.telemetry.exposition import parse

if TYPE_CHECKING:
    from specdeck.telemetry.exposition import Exposition, Sample

COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "requests_success": "vllm:request_success_total",
}
"""Field of CounterDelta → series. `requests_success` sums every finished_reason, abort and error included."""

ACCEPTED_PER_POS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
TTFT = "vllm:time_to_first_token_seconds"
CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"
CREATED = "vllm:generation_tokens_created"


class RestartedError(Exception):
    """The counters of two snapshots do not belong to one life of the server."""


@dataclass(frozen=True)
class Snapshot:
    """One reading of /metrics for one model.

    Attributes:
        model: the `model_name` label that was counted.
        models: every `model_name` label the server shows.
        engines: `engine` labels of the running-requests gauge.
        process_start: Unix seconds; None where the server does not say (several API processes).
        ttft_count: first tokens in the server's histogram of times to them.
        ttft_sum_s: their times, summed.
        created: when each engine's token counter was made, Unix seconds.
    """

    model: str
    models: frozenset[str]
    engines: frozenset[str]
    running: int | None
    waiting: int | None
    process_start: float | None
    created: tuple[float, ...]
    kv_cache: KvCache | None
    accepted_per_pos: tuple[int, ...] | None
    drafts: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    prompt_tokens: int | None
    generation_tokens: int | None
    prefix_cache_queries: int | None
    prefix_cache_hits: int | None
    preemptions: int | None
    requests_success: int | None
    ttft_count: int | None = None
    ttft_sum_s: float | None = None

    @classmethod
    def parse(cls, text: str, model_name: str, *, where: str = "/metrics") -> Snapshot:
        """Read an exposition text.

        Where no series is labelled `model_name` and all are labelled with one other name, that name is taken: it is
        an alias of the served model. `model` tells.

        Raises:
            SpecdeckError: the text is damaged, a series stands twice, or a counter is no whole number.
        """
        exposition = parse(text, where=where)
        models = frozenset(
            model
            for name in (RUNNING, *COUNTERS.values())
            for sample in exposition.get(name)
            if (model := sample.labels.get("model_name")) is not None
        )
        model = next(iter(models)) if model_name not in models and len(models) == 1 else model_name
        view = _View(exposition, model, where)
        return cls(
            model=model,
            models=models,
            engines=frozenset(sample.labels.get("engine", "") for sample in view.samples(RUNNING)),
            running=view.total(RUNNING),
            waiting=view.total(WAITING),
            process_start=next((sample.value for sample in exposition.get(PROCESS_START)), None),
            created=tuple(sorted(sample.value for sample in view.samples(CREATED))),
            kv_cache=_kv_cache(exposition.get(CACHE_CONFIG)),
            accepted_per_pos=view.per_position(ACCEPTED_PER_POS),
            ttft_count=view.total(f"{TTFT}_count"),
            ttft_sum_s=view.seconds(f"{TTFT}_sum"),
            **{field: view.total(name) for field, name in COUNTERS.items()},
        )

    def counts(self) -> tuple[int | tuple[int, ...] | None, ...]:
        """All counters, for telling whether the server still counts."""
        return (*(getattr(self, field) for field in COUNTERS), self.accepted_per_pos)

    def delta(self, after: Snapshot) -> CounterDelta:
        """What was counted from this snapshot to `after`.

        A series that was absent before counts from 0, because labels may first appear with the first request, but
        only when the server is known to be the same process. One that is absent after is None.

        Raises:
            RestartedError: the process or its counters were made anew, or a counter fell.
        """
        if None not in (self.process_start, after.process_start) and self.process_start != after.process_start:
            raise RestartedError(f"the process started anew (start time {self.process_start} → {after.process_start})")
        if self.created and after.created and self.created != after.created:
            raise RestartedError("the token counters were made anew")
        same = self.process_start is not None and self.process_start == after.process_start
        changes = {
            field: _difference(getattr(self, field), getattr(after, field), name, same=same)
            for field, name in COUNTERS.items()
        }
        return CounterDelta(
            accepted_per_pos=_per_position(self.accepted_per_pos, after.accepted_per_pos, same=same), **changes
        )


def per_position_gap(delta: CounterDelta) -> int | None:
    """Accepted tokens minus the sum of accepted per position; 0 when sound, None when a series is absent.

    The same as: sum of per-position rates = acceptance length − 1, without the division.
    """
    if delta.accepted_tokens is None or delta.accepted_per_pos is None:
        return None
    return delta.accepted_tokens - sum(delta.accepted_per_pos)


def _difference(before: int | None, after: int | None, name: str, *, same: bool) -> int | None:
    if after is None:
        return None
    if before is None:
        return after if same else None
    if after < before:
        raise RestartedError(f"{name} fell from {before} to {after}")
    return after - before


def _per_position(
    before: tuple[int, ...] | None, after: tuple[int, ...] | None, *, same: bool
) -> tuple[int, ...] | None:
    if after is None or (before is None and not same):
        return None
    if before is not None and len(before) > len(after):
        raise RestartedError(f"{ACCEPTED_PER_POS} went from {len(before)} to {len(after)} positions")
    padded = (*(before or ()), *([0] * (len(after) - len(before or ()))))
    found = [_difference(a, b, ACCEPTED_PER_POS, same=True) for a, b in zip(padded, after, strict=True)]
    return tuple(count for count in found if count is not None)


class _View:
    """The samples of one model; a series without a model_name label belongs to every model."""

    def __init__(self, exposition: Exposition, model: str, where: str) -> None:
        self._exposition, self._model, self._where = exposition, model, where

    def samples(self, name: str) -> list[Sample]:
        found = [s for s in self._exposition.get(name) if s.labels.get("model_name", self._model) == self._model]
        if len({frozenset(sample.labels.items()) for sample in found}) < len(found):
            raise self._wrong(name, "a series stands twice")
        return found

    def total(self, name: str) -> int | None:
        found = self.samples(name)
        return sum(self._whole(sample, name) for sample in found) if found else None

    def seconds(self, name: str) -> float | None:
        found = self.samples(name)
        return sum(sample.value for sample in found) if found else None

    def per_position(self, name: str) -> tuple[int, ...] | None:
        counts: dict[int, int] = {}
        for sample in self.samples(name):
            position = sample.labels.get("position", "")
            if not position.isdecimal():
                raise self._wrong(name, f"position is {position!r}")
            counts[int(position)] = counts.get(int(position), 0) + self._whole(sample, name)
        if counts and sorted(counts) != list(range(len(counts))):
            raise self._wrong(name, f"positions are {sorted(counts)}")
        return tuple(counts[position] for position in sorted(counts)) if counts else None

    def _whole(self, sample: Sample, name: str) -> int:
        if not sample.value.is_integer() or sample.value < 0:
            raise self._wrong(name, f"{sample.value} is no count")
        return int(sample.value)

    def _wrong(self, name: str, why: str) -> SpecdeckError:
        return SpecdeckError(
            f"the metrics are not vLLM's as known: {why} in {name}",
            where=self._where,
            fix="read the URL with `curl`; a proxy that merges several servers cannot be measured as one",
        )


def _kv_cache(found: list[Sample]) -> KvCache | None:
    """Pool facts; blocks and tokens are summed over engines, the rest is the first engine's."""
    if not found:
        return None
    engines = [sample.labels for sample in found]
    first = engines[0]

    def number(labels: dict[str, str], key: str) -> int | None:
        text = labels.get(key, "")
        return int(text) if text.isdecimal() else None

    def total(key: str) -> int | None:
        counts = [number(labels, key) for labels in engines]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    caching = {"True": True, "False": False}.get(first.get("enable_prefix_caching", ""))
    return KvCache(
        size_tokens=total("kv_cache_size_tokens"),
        block_size=number(first, "block_size"),
        num_gpu_blocks=total("num_gpu_blocks"),
        num_cpu_blocks=total("num_cpu_blocks"),
        enable_prefix_caching=caching,
        cache_dtype=first.get("cache_dtype"),
    )


assert set(COUNTERS) | {"accepted_per_pos"} == set(CounterDelta.__struct_fields__)
assert set(COUNTERS) <= {field.name for field in fields(Snapshot)}
