"""From a run and its cells to everything a report says about it. Pure: the same input gives the same summary."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from specdeck.results.kind import SYNTHETIC_NOTICE
from specdeck.results.schema import ArmInfo
from specdeck.stats.acceptance import acceptance, length_from_payloads, pool, positions, with_payload
from specdeck.stats.bootstrap import RESAMPLES, SEED
from specdeck.stats.columns import Requests
from specdeck.stats.distribution import distribution
from specdeck.stats.equality import equal_text
from specdeck.stats.goodput import goodput, limits_of
from specdeck.stats.knee import knee
from specdeck.stats.latency import quantiles, rates
from specdeck.stats.model import (
    CPU_NOTICE,
    UNKNOWN_DEVICE_NOTICE,
    ArmSummary,
    CategoryRow,
    EqualText,
    Estimate,
    RequestRate,
    Row,
    Span,
    Summary,
)
from specdeck.stats.notes import cell_notes, counter_notes, ratio_notes, run_notes
from specdeck.stats.observations import observe, quotient
from specdeck.stats.stages import stage_rows
from specdeck.stats.steps import break_even, step_time
from specdeck.stats.throughput import PairedRatio, completion_tokens, output_tok_s, paired_ratio, request_tok_s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.results.schema import Cell, RequestRecord, Run
    from specdeck.stats.bootstrap import FloatArray
    from specdeck.stats.model import Distribution, Note, StageRow

    Measured = list[tuple[Cell, Requests]]
    Grouped = Mapping[str, Mapping[int, Measured]]

_NOTICES = {"cpu": CPU_NOTICE, "unknown": UNKNOWN_DEVICE_NOTICE}


def summarize(run: Run, cells: Sequence[tuple[Cell, Sequence[RequestRecord]]], damaged: Sequence[Note] = ()) -> Summary:
    """Compute every figure of a run from its cells. Invalid cells are listed and in no figure, as are damaged ones."""
    valid: dict[str, dict[int, Measured]] = defaultdict(lambda: defaultdict(list))
    for cell, records in sorted(cells, key=lambda item: (item[0].concurrency, item[0].round)):
        if cell.status == "ok":
            valid[cell.arm][cell.concurrency].append((cell, Requests.of(cell, records)))
    names = _arm_names(run, [cell for cell, _ in cells])
    baseline = run.baseline_arm if run.baseline_arm in names else None
    notes: list[Note] = [*damaged, *run_notes(run, names, valid.keys()), *cell_notes([cell for cell, _ in cells])]
    limits = limits_of(run.plan)
    stages: list[StageRow] = []
    rows: list[Row] = []
    distributions: list[Distribution] = []
    arms: list[ArmSummary] = []
    categories: list[CategoryRow] = []
    for name in names:
        groups = valid.get(name, {})
        base: Mapping[int, Measured] = valid.get(baseline, {}) if baseline not in (None, name) else {}
        for concurrency, measured in groups.items():
            paired = paired_ratio(measured, base[concurrency]) if concurrency in base else None
            if paired is not None and baseline is not None:
                notes += ratio_notes(name, baseline, concurrency, paired, len(measured))
            row = _row(name, concurrency, measured, paired, with_ratio=baseline not in (None, name))
            row = msgspec.structs.replace(row, goodput=goodput(measured, limits))
            plain = base.get(concurrency) if baseline is not None and not _drafts(run, baseline) else None
            rows.append(_with_steps(row, measured, plain, drafting=_drafts(run, name)))
            stages += stage_rows(name, concurrency, measured, limits)
            distributions += _distributions(name, concurrency, measured)
        everything = [item for measured in groups.values() for item in measured]
        arm = _arm(name, run.arms.get(name, ArmInfo(name=name)), everything)
        arms.append(arm)
        notes += counter_notes(name, arm.acceptance, pool([cell.counters for cell, _ in everything]))
        categories += _categories(name, groups)
    plan: dict[str, Any] = run.plan
    return Summary(
        run_id=run.run_id,
        run_status=run.status,
        created_at=run.created_at,
        recipe=run.recipe_name,
        plan=run.plan_name,
        device=run.device,
        throughput_notice=SYNTHETIC_NOTICE if run.acceptance_kind == "synthetic" else _NOTICES.get(run.device),
        baseline=baseline,
        planned_prompts=run.num_prompts,
        temperature=plan.get("temperature"),
        max_tokens=plan.get("max_tokens"),
        cache_policy=plan.get("cache_policy"),
        arms=tuple(arms),
        rows=tuple(rows),
        categories=tuple(categories),
        # Texts of synthetic acceptance are whatever the drafter said.
        equal_text=_equal_text(names, baseline, valid) if run.acceptance_kind == "measured" else (),
        excluded_cells=sum(cell.status != "ok" for cell, _ in cells) + len(damaged),
        findings=tuple(notes),
        resamples=RESAMPLES,
        seed=SEED,
        distributions=tuple(distributions),
        timeline=_timeline([cell for cell, _ in cells]),
        stages=tuple(stages),
        knees=tuple(found for name in names if (found := knee(name, rows)) is not None),
        goodput_limits_ms=limits,
        acceptance_kind=run.acceptance_kind,
    )


def _drafts(run: Run, name: str) -> bool:
    info = run.arms.get(name)
    return info is not None and info.method is not None


def _with_steps(row: Row, cells: Measured, plain: Measured | None, *, drafting: bool) -> Row:
    """Add the step time, and for a drafting arm the acceptance length at which it breaks even with `plain`."""
    even = (break_even(cells, plain) if plain else Estimate()) if drafting else None
    return msgspec.structs.replace(row, step_s=step_time(cells, drafting=drafting), break_even=even)


def _distributions(name: str, concurrency: int, cells: Measured) -> list[Distribution]:
    seen = observe(cells)
    found = [
        distribution(name, concurrency, metric, values)
        for metric, values in (("ttft_s", seen.ttft_s), ("tpot_s", seen.tpot_s))
    ]
    return [item for item in found if item is not None]


def _timeline(cells: Sequence[Cell]) -> tuple[Span, ...]:
    if not cells:
        return ()
    starts = [datetime.fromisoformat(cell.started_at) for cell in cells]
    first = min(starts)
    return tuple(
        Span(
            arm=cell.arm,
            cell_id=cell.cell_id,
            concurrency=cell.concurrency,
            round=cell.round,
            start_s=(start - first).total_seconds(),
            duration_s=cell.duration_s,
            valid=cell.status == "ok",
        )
        for start, cell in sorted(
            zip(starts, cells, strict=True), key=lambda item: (item[0], item[1].arm, item[1].cell_id)
        )
    )


def _arm_names(run: Run, cells: Sequence[Cell]) -> list[str]:
    """Arms in the plan's order, then whatever else the run has. An attached server has no recipe to plan arms of."""
    planned = [str(name) for name in run.plan.get("arms", ())] if run.recipe else []
    return list(dict.fromkeys([*planned, *run.arms, *(cell.arm for cell in cells)]))


def _row(name: str, concurrency: int, cells: Measured, paired: PairedRatio | None, *, with_ratio: bool) -> Row:
    seen = observe(cells)
    counters = pool([cell.counters for cell, _ in cells])
    parts = [requests.columns for _, requests in cells]
    tokens = [completion_tokens(part.seen) for part in parts]
    whole = None if None in tokens else sum(t for t in tokens if t is not None)
    return Row(
        arm=name,
        concurrency=concurrency,
        rounds=len(cells),
        requests=len(seen),
        failed=sum(part.failed for part in parts),
        prompts=len(seen.prompts),
        duration_s=sum(cell.duration_s for cell, _ in cells),
        completion_tokens=whole,
        mean_completion_tokens=quotient(whole, len(seen)),
        output_tok_s=output_tok_s(cells),
        ratio=(paired.ratio if paired else Estimate()) if with_ratio else None,
        acceptance=acceptance(counters, seen),
        ttft_s=quantiles(seen.ttft_s, seen.prompt),
        tpot_s=quantiles(seen.tpot_s, seen.prompt),
        inter_chunk_s=quantiles(np.concatenate([part.gaps_s for part in parts])),
        itl_s=quantiles(_together([part.itl_s for part in parts])),
        peak_output_tok_s=max((part.peak_tok_s for part in parts if part.peak_tok_s is not None), default=None),
        e2e_s=quantiles(seen.e2e_s, seen.prompt),
        decode_tok_s=quantiles(rates(seen.tpot_s)),
        prefix_hit_rate=quotient(counters.prefix_cache_hits, counters.prefix_cache_queries),
    )


def _together(parts: Sequence[FloatArray | None]) -> FloatArray:
    """All of them, or nothing where one is not known."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else np.empty(0)


def _arm(name: str, info: ArmInfo, cells: Measured) -> ArmSummary:
    seen = observe(cells)
    counters = pool([cell.counters for cell, _ in cells])
    return ArmSummary(
        name=name,
        method=info.method,
        num_speculative_tokens=info.num_speculative_tokens,
        cells=len(cells),
        requests=len(seen),
        prompts=len(seen.prompts),
        acceptance=acceptance(counters, seen),
        positions=positions(counters, seen),
        unavailable=info.unavailable,
        asked_rates=info.asked_rates,
    )


def _categories(name: str, groups: Mapping[int, Measured]) -> list[CategoryRow]:
    by_concurrency = {concurrency: observe(cells) for concurrency, cells in groups.items()}
    everything = observe([item for cells in groups.values() for item in cells])
    rows = []
    for category in everything.categories:
        part = everything.of_category(category)
        told = with_payload(part)
        payloads = len(told) > 0
        rows.append(
            CategoryRow(
                arm=name,
                category=category,
                requests=len(part),
                prompts=len(part.prompts),
                acceptance_length=length_from_payloads(part),
                draft_acceptance_rate=quotient(float(told.accepted.sum()), float(told.drafted.sum()))
                if payloads
                else None,
                request_tok_s=tuple(
                    RequestRate(concurrency=concurrency, tok_s=request_tok_s(seen.of_category(category)))
                    for concurrency, seen in by_concurrency.items()
                ),
            )
        )
    return rows


def _equal_text(names: Sequence[str], baseline: str | None, valid: Grouped) -> tuple[EqualText, ...]:
    if baseline is None:
        return ()
    by_arm = {name: [item for cells in valid.get(name, {}).values() for item in cells] for name in names}
    return tuple(
        equal_text(name, by_arm[name], by_arm[baseline]) for name in names if name != baseline and valid.get(name)
    )
