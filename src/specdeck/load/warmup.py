"""Requests before the first cell: they load kernels and caches, are never measured, and must succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.load.loop import run_load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.load.client import Target
    from specdeck.load.prompts import Prompt
    from specdeck.results.schema import Sampling


async def warm_up(
    target: Target,
    prompts: Sequence[Prompt],
    n: int,
    *,
    sampling: Sampling,
    concurrency: int = 4,
    request_timeout_s: float = 300.0,
) -> list[str]:
    """Send `n` requests, the prompts in turn.

    The first goes alone, the rest `concurrency` at a time, so that both batch shapes have been seen.

    Returns:
        One line per failed request; empty when all went well.
    """
    chosen = [prompts[i % len(prompts)] for i in range(n)] if prompts else []
    errors: list[str] = []
    for part, width in ((chosen[:1], 1), (chosen[1:], concurrency)):
        if not part or errors:
            continue
        outcome = await run_load(
            target, part, concurrency=width, sampling=sampling, request_timeout_s=request_timeout_s
        )
        errors += [
            f"{record.prompt_id}: {record.error.kind}: {record.error.message}"
            for record in outcome.records
            if record.error is not None
        ]
    return errors
