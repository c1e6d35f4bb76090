"""What the bench asks of the CPU engine works in every arm: sampling, seeds, concurrency, caches, stops, logprobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from specdeck.load.prompts import load_prompts
from specdeck.telemetry.counters import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

ARMS = ("none", "mtp", "dflash2")


@pytest.fixture(scope="session")
def questions(root: Path) -> list[str]:
    prompts = load_prompts(root / "bench" / "prompts" / "tiny-next.jsonl")
    return [prompt.messages[0].content for prompt in prompts if prompt.messages]


def _text(answer: dict[str, object]) -> str:
    choices = answer["choices"]
    assert isinstance(choices, list)
    content = choices[0]["message"]["content"]
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize("arm", ARMS)
async def test_greedy_answers_repeat(live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str) -> None:
    server = await live(arm)
    first, second = [_text(await server.chat(questions[0])) for _ in range(2)]
    assert first
    assert first == second


@pytest.mark.parametrize("arm", ARMS)
async def test_a_seed_decides_sampling_at_temperature_0_8_and_another_seed_differs(
    live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str
) -> None:
    server = await live(arm)

    async def sampled(seed: int) -> list[str]:
        return [_text(await server.chat(text, temperature=0.8, seed=seed)) for text in questions[20:24]]

    first = await sampled(1)
    assert await sampled(1) == first
    # The pair is sure of most words: a seed may well give the text of another one, eight of them do not.
    for seed in range(2, 10):
        if await sampled(seed) != first:
            return
    pytest.fail("nine seeds gave the same four answers")


@pytest.mark.parametrize("arm", ARMS)
async def test_four_requests_at_once_get_the_answers_they_get_alone(
    live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str
) -> None:
    server = await live(arm)
    alone = [_text(await server.chat(text)) for text in questions[:4]]
    together = [_text(answer) for answer in await asyncio.gather(*(server.chat(text) for text in questions[:4]))]
    # bf16 sums depend on the batch, so one near tie may fall the other way; a mixed-up row would change them all.
    assert sum(a == b for a, b in zip(alone, together, strict=True)) >= 3


@pytest.mark.parametrize("arm", ARMS)
async def test_a_repeated_long_prompt_hits_the_prefix_cache_and_answers_the_same(
    live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str
) -> None:
    server = await live(arm)
    long = " ".join(questions[:14])
    before = Snapshot.parse(await server.metrics(), server.server.served_model)
    cold, warm = [await server.chat(long, max_tokens=24) for _ in range(2)]
    after = Snapshot.parse(await server.metrics(), server.server.served_model)
    assert after.kv_cache is not None
    assert after.kv_cache.block_size
    assert cold["usage"]["prompt_tokens"] > 2 * after.kv_cache.block_size
    assert (before.delta(after).prefix_cache_hits or 0) > 0
    assert _text(cold) == _text(warm)


@pytest.mark.parametrize("arm", ARMS)
async def test_a_stop_string_ends_the_answer_before_it(
    live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str
) -> None:
    server = await live(arm)
    whole = _text(await server.chat(questions[0]))
    word = whole.split()[4]
    answer = await server.chat(questions[0], stop=[word])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["stop_reason"] == word
    assert _text(answer) == whole[: whole.index(word)]


@pytest.mark.parametrize("arm", ARMS)
async def test_logprobs_of_a_greedy_answer_rank_the_chosen_token_first(
    live: Callable[[str], Awaitable[Live]], questions: list[str], arm: str
) -> None:
    server = await live(arm)
    answer = await server.chat(questions[0], max_tokens=16, logprobs=True, top_logprobs=2)
    tokens = answer["choices"][0]["logprobs"]["content"]
    assert len(tokens) == answer["usage"]["completion_tokens"]
    for token in tokens:
        assert token["logprob"] <= 0
        assert token["top_logprobs"][0]["token"] == token["token"]


@pytest.mark.parametrize("arm", ARMS)
async def test_prompt_logprobs_cover_the_prompt(live: Callable[[str], Awaitable[Live]], arm: str) -> None:
    server = await live(arm)
    answer = await server.post(
        "completions", prompt="Ada has 3 apples and buys 4 more.", max_tokens=1, temperature=0, prompt_logprobs=0
    )
    found = answer["choices"][0]["prompt_logprobs"]
    assert len(found) == answer["usage"]["prompt_tokens"]
    assert found[0] is None
    assert all(value["logprob"] <= 0 for token in found[1:] for value in token.values())
