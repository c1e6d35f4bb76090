"""Conversations of several turns: which requests they are, and the next one from the answer that really came. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.load.prompts import Message, Prompt
from specdeck.load.stream import read_answer, split_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.load.exchange import Exchange

FAILED = "an earlier turn of its conversation failed"


def turns_of(prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[range]]:
    """One prompt a request, and the requests of each conversation.

    The prompt of a later turn holds only what the user says then: its id is `ID/turn-N`, N from 2.
    """
    flat: list[Prompt] = []
    conversations: list[range] = []
    for prompt in prompts:
        begin = len(flat)
        flat.append(prompt)
        flat += [
            Prompt(
                id=f"{prompt.id}/turn-{number}",
                category=prompt.category,
                messages=(Message("user", said),),
                max_tokens=prompt.max_tokens,
            )
            for number, said in enumerate(prompt.follow_ups, 2)
        ]
        conversations.append(range(begin, len(flat)))
    return flat, conversations


def first_turn(prompt: Prompt) -> Prompt:
    """The prompt without what the user says later."""
    return msgspec.structs.replace(prompt, follow_ups=()) if prompt.follow_ups else prompt


def answer_text(exchange: Exchange) -> str | None:
    """What a finished request answered; None where it failed. Reasoning is not part of the history, as in chats."""
    if exchange.failure is not None:
        return None
    payloads = exchange.payloads()
    answer = read_answer(split_events(exchange.stamps[: len(payloads)], payloads))
    return None if answer.error is not None else answer.text


def continued(history: Prompt, answer: str, turn: Prompt) -> Prompt:
    """The next request: all that was said, the answer, and what the user says now."""
    said = history.messages if history.messages is not None else (Message("user", history.text),)
    return msgspec.structs.replace(turn, messages=(*said, Message("assistant", answer), *(turn.messages or ())))
