"""From what a request left behind to its record in the results: pure, after the clock has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.load.redact import redact
from specdeck.load.stream import Answer, read_answer, split_events
from specdeck.results.schema import RequestRecord

if TYPE_CHECKING:
    from specdeck.load.exchange import Exchange
    from specdeck.load.prompts import Prompt


def make_record(exchange: Exchange, prompt: Prompt, start: float, api_key: str | None = None) -> RequestRecord:
    """Build a request's record; times are seconds since `start`.

    A transport failure wins over what the cut-off stream looks like: it is the cause.
    """
    payloads = exchange.payloads()
    answer = read_answer(split_events(exchange.stamps[: len(payloads)], payloads)) if payloads else Answer()
    error = exchange.failure or answer.error
    if error is not None:
        error = msgspec.structs.replace(error, message=redact(error.message, api_key))

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - start, 9)

    return RequestRecord(
        request_id=exchange.request_id,
        index=exchange.index,
        stage=exchange.stage,
        max_tokens=prompt.max_tokens,
        prompt_id=prompt.id,
        category=prompt.category,
        scheduled_s=round(exchange.scheduled - start, 9),
        sent_s=since(exchange.sent),
        first_token_s=since(answer.first_token),
        first_content_s=since(answer.first_content),
        last_token_s=since(answer.last_token),
        end_s=round(exchange.end - start, 9),
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        completion_tokens=answer.completion_tokens,
        chunk_s=tuple(round(stamp - start, 9) for stamp in answer.chunk_stamps),
        chunk_tokens=None if answer.chunk_tokens is None else tuple(answer.chunk_tokens),
        finish_reason=answer.finish_reason,
        text=answer.text,
        reasoning=answer.reasoning,
        text_sha256=None if error is not None else answer.sha256,
        spec=answer.spec,
        error=error,
    )
