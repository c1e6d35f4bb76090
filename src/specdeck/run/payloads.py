"""Per-request acceptance held against itself and against the request's own usage, before anybody builds on it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdeck.results.schema import RequestRecord, SpecPayload


def audit(records: Iterable[RequestRecord], num_speculative_tokens: int | None) -> str | None:
    """What to tell where payloads contradict themselves, their usage, or the arm's draft length.

    Only answered requests are looked at. A step emits at least one token, so an answer has at least as many tokens as
    steps; a last step may have accepted more than a stop or max_tokens kept, so there is no bound from above.

    Args:
        records: of one cell.
        num_speculative_tokens: the arm's draft length; None: unknown, and not compared.
    """
    seen, bad, first = 0, 0, ""
    for record in records:
        if record.error is not None or record.spec is None:
            continue
        seen += 1
        wrong = contradiction(record.spec, record.completion_tokens, num_speculative_tokens)
        if wrong:
            bad += 1
            first = first or f"{record.prompt_id}: {wrong}"
    return f"{bad} of {seen} answers' own acceptance contradicts itself; the first, {first}" if bad else None


def contradiction(spec: SpecPayload, tokens: int | None, length: int | None) -> str | None:
    """The first thing that cannot be true of one payload; None when all can."""
    steps, accepted, drafted = spec.num_spec_steps, spec.num_accepted_draft_tokens, spec.num_draft_tokens
    histogram, by_step, drafted_by_step = spec.acceptance_histogram, spec.per_step_accepted, spec.per_step_drafted
    longest = spec.num_spec_tokens
    checks = (
        (min(steps, accepted, drafted, *histogram) >= 0, "a count below 0"),
        (accepted <= drafted, f"{accepted} tokens accepted of {drafted} drafted"),
        (longest is None or drafted <= steps * longest, f"{drafted} tokens drafted in {steps} steps of {longest}"),
        (length is None or longest in (None, length), f"drafts of {longest} tokens, the arm's are of {length}"),
        (not histogram or sum(histogram) == steps, f"a histogram of {sum(histogram)} steps for {steps}"),
        (
            not histogram or sum(k * n for k, n in enumerate(histogram)) == accepted,
            f"a histogram of {sum(k * n for k, n in enumerate(histogram))} accepted tokens for {accepted}",
        ),
        (by_step is None or (len(by_step), sum(by_step)) == (steps, accepted), "accepted tokens by step do not add up"),
        (
            drafted_by_step is None or (len(drafted_by_step), sum(drafted_by_step)) == (steps, drafted),
            "drafted tokens by step do not add up",
        ),
        (tokens is None or tokens >= steps, f"{tokens} tokens from {steps} steps, each of which emits at least one"),
    )
    return next((told for holds, told in checks if not holds), None)
