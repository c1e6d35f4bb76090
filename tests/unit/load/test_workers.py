"""A load by several processes is the same load: every prompt once, one clock, records merged in order."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from support.fake_server import FakeServer, serving

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target
from specdeck.load.loopback.process import running_loopback
from specdeck.load.loopback.shape import Shape
from specdeck.load.prompts import Prompt
from specdeck.load.stages import Moment
from specdeck.load.wire import clock
from specdeck.load.workers import run_workers, worker_count
from specdeck.results.schema import Sampling

if TYPE_CHECKING:
    from specdeck.load.loop import LoadOutcome

GREEDY = Sampling(temperature=0.0, max_tokens=13)
KEY = "sk-a-key-that-nobody-may-see"


def _prompts(count: int) -> list[Prompt]:
    return [Prompt(id=f"p-{i}", category="c", prompt=f"question {i}") for i in range(count)]


async def _run(server: FakeServer, count: int, workers: int = 2, **options: object) -> LoadOutcome:
    return await run_workers(
        workers,
        Target(server.base_url, "tiny", api_key=KEY),
        _prompts(count),
        **{"concurrency": 3, "sampling": GREEDY, "request_timeout_s": 20, **options},  # type: ignore[arg-type]
    )


async def test_every_prompt_is_sent_once_and_the_records_stand_in_order_on_one_clock() -> None:
    seen: list[str] = []
    before = clock()
    async with serving(FakeServer(delay_s=0.01)) as server:
        outcome = await _run(server, 9, on_progress=seen.append, cache_salt="s")
    records = list(outcome.records)
    assert [(record.index, record.prompt_id) for record in records] == [(i, f"p-{i}") for i in range(9)]
    assert sorted(seen) == sorted(record.prompt_id for record in records)
    assert [record.error for record in records] == [None] * 9
    assert sorted(body["messages"][0]["content"] for body in server.bodies) == [f"question {i}" for i in range(9)]
    assert {body["cache_salt"] for body in server.bodies} == {"s"}
    assert server.max_in_flight <= 3
    assert len({record.request_id for record in records}) == 9
    assert before < outcome.start < clock()
    assert all(0 <= record.scheduled_s <= (record.sent_s or 0) < record.end_s for record in records)
    assert outcome.duration_s == max(record.end_s for record in records)


def test_the_servers_own_moments_are_met_by_every_process() -> None:
    with running_loopback() as loopback:
        outcome = asyncio.run(
            run_workers(
                2,
                Target(loopback.url(Shape(tokens="4", interval_ms=5)), "loopback"),
                _prompts(8),
                concurrency=4,
                sampling=Sampling(temperature=0.0, max_tokens=40),
                request_timeout_s=60,
            )
        )
        told = loopback.truths()
    for record in outcome.records:
        true = told[record.request_id]
        assert record.chunk_tokens == tuple(true.tokens)
        assert all(at + outcome.start >= sent for at, sent in zip(record.chunk_s, true.sent, strict=True)), (
            "nothing arrives before it was sent: the clocks are one"
        )


async def test_moments_budgets_and_salts_of_repeats_go_to_whom_they_belong() -> None:
    async with serving(FakeServer()) as server:
        prompts = _prompts(2) * 2
        outcome = await run_workers(
            3, Target(server.base_url, "tiny"), prompts, concurrency=3, sampling=GREEDY, request_timeout_s=20,
            moments=[Moment(i * 0.05, 1 + i // 2) for i in range(4)], cache_salt="s", salt_repeats=True,
        )  # fmt: skip
    records = list(outcome.records)
    assert [record.stage for record in records] == [1, 1, 2, 2]
    assert [record.scheduled_s for record in records] == pytest.approx([0.0, 0.05, 0.1, 0.15])
    assert sorted(body["cache_salt"] for body in server.bodies) == ["s", "s", "s-1", "s-1"]


async def test_the_key_is_in_no_list_of_processes_and_none_is_left_when_the_load_is_cancelled() -> None:
    own = psutil.Process(os.getpid())
    async with serving(FakeServer(delay_s=5.0)) as server:
        task = asyncio.create_task(_run(server, 4))
        async with asyncio.timeout(60):
            while not server.in_flight:  # noqa: ASYNC110 - the double has no event for it
                await asyncio.sleep(0.02)
        lines = [" ".join(child.cmdline()) for child in own.children() if "specdeck.load.worker" in child.cmdline()]
        assert len(lines) == 2
        assert not any(KEY in line for line in lines)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not [child for child in own.children() if "specdeck.load.worker" in child.cmdline()]


async def test_a_process_that_dies_is_an_error_and_not_a_smaller_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SpecdeckError, match="ended with status 1 before it began") as caught:
        await run_workers(
            2, Target("http://127.0.0.1:9", "m"), _prompts(2), concurrency=2, sampling=GREEDY, request_timeout_s=5
        )
    assert "--workers 1" in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "streams", "cores", "count"),
    [(1, 64, 8, 1), (4, 2, 8, 2), ("auto", 64, 8, 1), ("auto", 256, 8, 1), ("auto", 257, 8, 2), ("auto", 2048, 2, 1),
     ("auto", 2048, 5, 4), ("auto", 1, 1, 1)],
)  # fmt: skip
def test_auto_takes_a_process_for_256_streams_and_leaves_a_core(
    wanted: int | str, streams: int, cores: int, count: int
) -> None:
    assert worker_count(wanted, streams, cores) == count  # type: ignore[arg-type]
