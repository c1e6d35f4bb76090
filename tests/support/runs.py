"""Builds runs, cells and records for tests of statistics and reports: small ones by hand, whole ones by a seed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.results.schema import (
    ArmInfo,
    Cell,
    ClientHealth,
    CounterDelta,
    Finding,
    HostUse,
    RequestError,
    RequestRecord,
    Run,
    Sampling,
    SpecPayload,
)
from specdeck.results.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.random import Generator

Cells = list[tuple[Cell, list[RequestRecord]]]


def payload(*per_step: int, n: int) -> SpecPayload:
    """What vLLM sends for a request whose steps accepted so many of n drafted tokens each."""
    return SpecPayload(
        num_spec_steps=len(per_step),
        num_accepted_draft_tokens=sum(per_step),
        num_draft_tokens=n * len(per_step),
        num_spec_tokens=n,
        acceptance_histogram=tuple(per_step.count(k) for k in range(n + 1)),
    )


def record(
    prompt_id: str = "p0",
    *,
    index: int = 0,
    category: str = "math",
    scheduled: float = 0.0,
    first: float | None = 0.5,
    last: float | None = 1.5,
    end: float = 2.0,
    tokens: int | None = 11,
    text: str = "answer",
    spec: SpecPayload | None = None,
    failed: bool = False,
    chunks: tuple[float, ...] = (),
) -> RequestRecord:
    """One request; failed ones keep their times, so that a test can see that those are not used."""
    return RequestRecord(
        request_id=f"r{index}",
        index=index,
        prompt_id=prompt_id,
        category=category,
        scheduled_s=scheduled,
        sent_s=scheduled,
        first_token_s=first,
        first_content_s=first,
        last_token_s=last,
        end_s=end,
        prompt_tokens=20,
        completion_tokens=tokens,
        chunk_s=chunks,
        finish_reason=None if failed else "length",
        text=text,
        text_sha256=None if failed else hashlib.sha256(text.encode()).hexdigest(),
        spec=spec,
        error=RequestError(kind="timeout", message="timed out") if failed else None,
    )


def cell(
    arm: str = "none",
    *,
    concurrency: int = 1,
    round_: int = 1,
    duration: float = 10.0,
    counters: CounterDelta | None = None,
    findings: tuple[Finding, ...] = (),
    records: Sequence[RequestRecord] = (),
) -> Cell:
    """One cell; invalid when a finding says so."""
    return Cell(
        cell_id=f"c{concurrency}-r{round_}",
        arm=arm,
        concurrency=concurrency,
        round=round_,
        order=0,
        started_at="2026-01-02T03:04:05+00:00",
        duration_s=duration,
        sampling=Sampling(temperature=0.0, max_tokens=64),
        cache_policy="cold",
        status="invalid" if any(f.severity == "invalid" for f in findings) else "ok",
        findings=findings,
        counters=counters or CounterDelta(),
        client=ClientHealth(requested_concurrency=concurrency),
        host=HostUse(),
        num_requests=len(records),
        num_failed=sum(r.error is not None for r in records),
    )


def run(
    arms: Sequence[str] = ("none", "mtp", "dflash2"),
    *,
    device: Any = "cpu",
    baseline: str | None = "none",
    status: Any = "complete",
    **changes: Any,
) -> Run:
    """A run of the given arms; mtp drafts 3 tokens, anything else but the baseline 7."""
    infos = {
        name: ArmInfo(
            name=name,
            method=None if name == "none" else "mtp" if name == "mtp" else "dflash",
            num_speculative_tokens=None if name == "none" else 3 if name == "mtp" else 7,
            command=("python", "-m", "vllm.entrypoints.openai.api_server", "--port", "8000"),
            readiness={"vllm_version": "0.32.0"},
        )
        for name in arms
    }
    fields: dict[str, Any] = {
        "run_id": "tiny-next-cpu-mtp-vs-dflash2-20260102-030405",
        "fingerprint": "f" * 64,
        "created_at": "2026-01-02T03:04:05+00:00",
        "finished_at": "2026-01-02T03:09:05+00:00",
        "status": status,
        "recipe_name": "tiny-next-cpu",
        "recipe": {"name": "tiny-next-cpu"},
        "recipe_sha256": "a" * 64,
        "plan_name": "mtp-vs-dflash2",
        "plan": {"arms": list(arms), "temperature": 0.0, "max_tokens": 64, "cache_policy": "cold", "rounds": 2},
        "plan_sha256": "b" * 64,
        "prompts_file": "bench/prompts/tiny-next.jsonl",
        "prompts_sha256": "c" * 64,
        "num_prompts": 12,
        "device": device,
        "baseline_arm": baseline,
        "arms": infos,
        "provenance": {
            "specdeck": "0.1.0",
            "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False, "diff_sha256": None},
            "python": "3.11.7",
            "host": {"cpu": "Example CPU", "cores": 2, "memory_gib": 24.0, "system": "Linux 6.1", "gpus": None},
            "argv": ["src/specdeck/__main__.py", "bench", "tiny-next-cpu", "--plan", "mtp-vs-dflash2"],
            "environment": {"HF_TOKEN": "<set>"},
        },
    }
    return Run(**{**fields, **changes})


def counters_of(records: Sequence[RequestRecord], n: int | None) -> CounterDelta:
    """What the server would have counted for these requests, had it nothing else to do."""
    specs = [r.spec for r in records if r.spec is not None]
    common: dict[str, Any] = {
        "prompt_tokens": 20 * len(records),
        "generation_tokens": sum(r.completion_tokens or 0 for r in records),
        "prefix_cache_queries": 20 * len(records),
        "prefix_cache_hits": 5 * len(records),
        "preemptions": 0,
        "requests_success": len(records),
    }
    if n is None:
        return CounterDelta(**common)
    return CounterDelta(
        drafts=sum(s.num_spec_steps for s in specs),
        draft_tokens=sum(s.num_draft_tokens for s in specs),
        accepted_tokens=sum(s.num_accepted_draft_tokens for s in specs),
        accepted_per_pos=tuple(sum(sum(s.acceptance_histogram[i:]) for s in specs) for i in range(1, n + 1)),
        **common,
    )


def whole_run(
    *,
    arms: Sequence[str] = ("none", "mtp", "dflash2"),
    prompts: int = 12,
    concurrency: Sequence[int] = (1, 4),
    rounds: int = 2,
    payloads: bool = True,
    seed: int = 7,
    names: Sequence[str] | None = None,
    **run_changes: Any,
) -> tuple[Run, Cells]:
    """A run that looks measured: categories differ, rounds wobble, a few texts differ from the baseline's."""
    generator = np.random.default_rng(seed)
    ids = list(names) if names else [f"{('math', 'code', 'chat')[i % 3]}-{i // 3 + 1:02d}" for i in range(prompts)]
    cells: Cells = []
    for arm in arms:
        for at in concurrency:
            for number in range(1, rounds + 1):
                records = _requests(generator, arm, ids, at, payloads=payloads)
                n = None if arm == "none" else 3 if arm == "mtp" else 7
                duration = max(r.end_s for r in records) + 0.01
                counted = counters_of(records, n)
                if not payloads:
                    records = [_without_payload(r) for r in records]
                made = cell(arm, concurrency=at, round_=number, duration=duration, counters=counted, records=records)
                cells.append((made, records))
    return run(arms, num_prompts=len(ids), **run_changes), cells


def _without_payload(r: RequestRecord) -> RequestRecord:
    from msgspec.structs import replace  # noqa: PLC0415

    return replace(r, spec=None)


def _requests(
    generator: Generator, arm: str, ids: Sequence[str], concurrency: int, *, payloads: bool
) -> list[RequestRecord]:
    n = 0 if arm == "none" else 3 if arm == "mtp" else 7
    slots = [0.0] * concurrency
    records = []
    for i, prompt_id in enumerate(ids):
        kind = i % 3
        keep = (0.86, 0.80, 0.70)[kind]
        tokens, steps = 1, []
        while tokens < 64:
            accepted = 0
            while accepted < n and generator.random() < keep:
                accepted += 1
            accepted = min(accepted, 63 - tokens) if tokens < 64 else 0
            steps.append(accepted)
            tokens += accepted + 1
        slot = slots.index(min(slots))
        start = slots[slot]
        step_s = (0.05 + 0.03 * n) * (1 + 0.25 * (concurrency - 1)) * float(generator.normal(1, 0.03))
        first = start + 0.12 * float(generator.lognormal(0, 0.2))
        chunks = tuple(first + step_s * k for k in range(len(steps) + 1))
        slots[slot] = chunks[-1] + 0.002
        text = f"{prompt_id} says seven" if not (arm == "dflash2" and i == 4) else f"{prompt_id} says eight"
        records.append(
            record(
                prompt_id,
                index=i,
                category=("math", "code", "chat")[kind],
                scheduled=start,
                first=first,
                last=chunks[-1],
                end=slots[slot],
                tokens=64,
                text=text,
                spec=payload(*steps, n=n) if n else None,
                chunks=chunks,
            )
        )
    return records


def stored(root: Path, made: Run, cells: Cells) -> Path:
    """Write a run with its cells into a folder below root, as a measurement would."""
    with RunStore.create(root, made) as store:
        for one, records in cells:
            store.write_cell(one, records, "", "")
        return store.path
