"""A cell as the result file of `vllm bench serve --save-result --save-detailed`: same keys, units and conventions.

As there: requests that failed have length 0, times count from when a request was sent, `itls` are times between chunks
(not tokens), and the acceptance rate is in percent. An open loop has two times more: `client_queue_time`, from due to
sent, and `e2el_including_client_queue`, from due to the last token. In a closed loop a request is due when its slot is
free, there all are due at once, so it has neither. What we do not know is null.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.stats.acceptance import acceptance_length, positions_from_counters
from specdeck.stats.goodput import limits_of
from specdeck.stats.observations import quotient
from specdeck.stats.tokens import peak_tokens_per_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.results.schema import Cell, RequestRecord, Run

BACKENDS = {"chat": "openai-chat", "completions": "openai"}
PERCENTILES = (50.0, 90.0, 99.0)


def file_name(cell: Cell) -> str:
    """One file a cell."""
    return f"{cell.arm}-{cell.cell_id}.json"


def render(
    run: Run, cell: Cell, records: Sequence[RequestRecord], percentiles: Sequence[float] = PERCENTILES
) -> dict[str, Any]:
    """Return the JSON object of one cell, with these percentiles (0 to 100) of every time."""
    ordered = sorted(records, key=lambda record: record.index)
    good = [record for record in ordered if record.error is None]
    lengths = [0 if record.error else record.completion_tokens for record in ordered]
    inputs = [record.prompt_tokens for record in ordered]
    total_in = _total([record.prompt_tokens for record in good])
    total_out = _total([record.completion_tokens for record in good])
    both = None if total_in is None or total_out is None else total_in + total_out
    ttfts = [_since_sent(record, record.first_token_s) for record in ordered]
    latencies = [_since_sent(record, record.last_token_s) for record in ordered]
    itls = [[] if record.error else np.diff(np.asarray(record.chunk_s)).tolist() for record in ordered]
    return {
        **_setup(run, cell, len(ordered)),
        "duration": cell.duration_s,
        "completed": len(good),
        "failed": len(ordered) - len(good),
        "total_input_tokens": total_in,
        "total_output_tokens": total_out,
        "request_throughput": len(good) / cell.duration_s,
        "request_goodput": _goodput(good, limits_of(run.plan), cell.duration_s),
        "output_throughput": quotient(total_out, cell.duration_s),
        "total_token_throughput": quotient(both, cell.duration_s),
        "input_lens": inputs,
        "output_lens": lengths,
        "ttfts": ttfts,
        "itls": itls,
        "latencies": latencies,
        "start_times": [record.sent_s for record in ordered],
        "queue_times": [_queue_time(record) for record in ordered],
        "generated_texts": [record.text for record in ordered],
        "errors": [record.error.message if record.error else "" for record in ordered],
        "max_output_tokens_per_s": peak_tokens_per_s(good),
        "max_concurrent_requests": _most_at_once(good),
        "rtfx": 0.0,
        **_speculative(cell),
        **_times(good, percentiles, open_loop=_is_open(cell)),
    }


def _times(good: Sequence[RequestRecord], percentiles: Sequence[float], *, open_loop: bool) -> dict[str, float | None]:
    """Statistics of each time over answered requests."""
    times = {
        "ttft": [_since_sent(record, record.first_token_s) for record in good],
        "tpot": [_tpot(record) for record in good],
        "itl": [gap for record in good for gap in np.diff(np.asarray(record.chunk_s)).tolist()],
        "e2el": [_since_sent(record, record.last_token_s) for record in good],
    }
    if open_loop:
        times["client_queue_time"] = [_queue_time(record) for record in good]
        times["e2el_including_client_queue"] = [_since_due(record) for record in good]
    return {
        key: value for name, seconds in times.items() for key, value in _statistics(name, seconds, percentiles).items()
    }


def _is_open(cell: Cell) -> bool:
    """Whether requests were due at moments of their own; in stages and traces no single rate holds (null)."""
    return cell.request_rate is not None or bool(cell.stages) or cell.trace is not None


def _goodput(good: Sequence[RequestRecord], limits: Mapping[str, float], duration_s: float) -> float | None:
    """Requests a second that met the limits. As there, times count from when a request was sent."""
    if not limits:
        return None
    met = 0
    for record in good:
        if record.completion_tokens is None:
            return None
        times = {
            "ttft": _since_sent(record, record.first_token_s),
            "tpot": 0.0 if record.completion_tokens == 1 else _tpot(record),
            "e2el": _since_sent(record, record.last_token_s),
        }
        told = [(times[key], limit) for key, limit in limits.items()]
        met += all(time is not None and 1000 * time <= limit for time, limit in told)
    return met / duration_s


def _setup(run: Run, cell: Cell, prompts: int) -> dict[str, Any]:
    target = run.recipe.get("target")
    model = (target.get("repo") or target.get("path")) if isinstance(target, dict) else None
    backend = BACKENDS.get(str(run.plan.get("endpoint")), "openai-chat")
    return {
        "date": datetime.fromisoformat(cell.started_at).strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": backend,
        "backend": backend,
        "label": f"{run.run_id}/{cell.arm}/{cell.cell_id}",
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": prompts,
        "request_rate": cell.request_rate if _is_open(cell) else "inf",
        "burstiness": 1.0 if cell.burstiness is None else cell.burstiness,
        "max_concurrency": cell.concurrency,
    }


def _speculative(cell: Cell) -> dict[str, Any]:
    counters = cell.counters
    if not counters.drafts or not counters.draft_tokens or counters.accepted_tokens is None:
        return {}
    return {
        "spec_decode_acceptance_rate": 100 * counters.accepted_tokens / counters.draft_tokens,
        "spec_decode_acceptance_length": acceptance_length(counters.accepted_tokens, counters.drafts),
        "spec_decode_num_drafts": counters.drafts,
        "spec_decode_draft_tokens": counters.draft_tokens,
        "spec_decode_accepted_tokens": counters.accepted_tokens,
        "spec_decode_per_position_acceptance_rates": list(positions_from_counters(counters) or ()),
    }


def _statistics(name: str, seconds: Sequence[float | None], percentiles: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, standard deviation and percentiles in milliseconds; null where nothing was measured."""
    known = np.array([value for value in seconds if value is not None], dtype=np.float64) * 1000
    keys = [f"mean_{name}_ms", f"median_{name}_ms", f"std_{name}_ms", *(_key(p, name) for p in percentiles)]
    if not len(known):
        return dict.fromkeys(keys)
    values = [known.mean(), np.median(known), known.std(), *np.percentile(known, percentiles)]
    return {key: float(value) for key, value in zip(keys, values, strict=True)}


def _key(percentile: float, name: str) -> str:
    word = str(int(percentile)) if percentile == int(percentile) else str(percentile)
    return f"p{word}_{name}_ms"


def _since_sent(record: RequestRecord, moment: float | None) -> float | None:
    return None if moment is None or record.sent_s is None else moment - record.sent_s


def _queue_time(record: RequestRecord) -> float | None:
    return None if record.sent_s is None else record.sent_s - record.scheduled_s


def _since_due(record: RequestRecord) -> float | None:
    return None if record.last_token_s is None else record.last_token_s - record.scheduled_s


def _tpot(record: RequestRecord) -> float | None:
    if record.first_token_s is None or record.last_token_s is None or (record.completion_tokens or 0) < 2:
        return None
    assert record.completion_tokens is not None
    return (record.last_token_s - record.first_token_s) / (record.completion_tokens - 1)


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _most_at_once(records: Sequence[RequestRecord]) -> int:
    edges = sorted(edge for r in records if r.sent_s is not None for edge in ((r.sent_s, 1), (r.end_s, -1)))
    running = most = 0
    for _, step in edges:
        running += step
        most = max(most, running)
    return most
