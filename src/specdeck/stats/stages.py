"""Figures of the stages of an open loop that changes its rate: the requests that were due in each, over all rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.load.arrivals import queue_time_p99_ms
from specdeck.stats.acceptance import length_from_payloads
from specdeck.stats.goodput import goodput
from specdeck.stats.latency import quantiles
from specdeck.stats.model import StageRow
from specdeck.stats.observations import observe, quotient, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.results.schema import Cell, RequestRecord


def stage_rows(
    arm: str, concurrency: int, cells: Sequence[tuple[Cell, Sequence[RequestRecord]]], limits: Mapping[str, float]
) -> list[StageRow]:
    """One row a stage; none for loads without stages.

    A request belongs to the stage it was due in, although it may be answered in the next. Output tok/s is therefore
    the tokens of those requests per second of the stage: what the stage asked of the server and got answered.
    """
    if not cells or not cells[0][0].stages:
        return []
    rows = []
    for stage in cells[0][0].stages:
        part = [
            (
                msgspec.structs.replace(cell, duration_s=stage.duration_s),
                [record for record in records if record.stage == stage.number],
            )
            for cell, records in cells
        ]
        seen = observe(part)
        sent = [record for _, records in part for record in records]
        rows.append(
            StageRow(
                arm=arm,
                concurrency=concurrency,
                stage=stage.number,
                request_rate=stage.request_rate,
                to_request_rate=stage.to_request_rate,
                requests=len(seen),
                failed=len(sent) - len(seen),
                output_tok_s=quotient(total(seen.tokens), stage.duration_s * len(cells)),
                ttft_s=quantiles(seen.ttft_s, seen.prompt),
                tpot_s=quantiles(seen.tpot_s, seen.prompt),
                queue_p99_ms=queue_time_p99_ms(sent),
                acceptance_length=length_from_payloads(seen),
                goodput=goodput(part, limits),
            )
        )
    return rows
