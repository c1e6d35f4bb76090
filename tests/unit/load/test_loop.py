"""The closed loop sends every prompt once, keeps its concurrency, and records every failure as what it was."""

from __future__ import annotations

import asyncio
import gc
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from support.fake_server import TOKENS, FakeServer, answer_events, chunk, drop_connection, serving

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target, request_body
from specdeck.load.loop import LoadOutcome, mean_in_flight, run_load
from specdeck.load.prompts import Message, Prompt
from specdeck.load.stages import Moment
from specdeck.load.warmup import warm_up
from specdeck.results.schema import RequestRecord, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable

GREEDY = Sampling(temperature=0.0, max_tokens=16)
KEY = "sk-very-secret-key-123"


def _prompts(count: int) -> list[Prompt]:
    return [
        Prompt(id=f"p-{i}", category="c", messages=(Message(role="user", content=f"question {i}"),))
        for i in range(count)
    ]


async def _run(server: FakeServer, count: int = 1, **options: Any) -> LoadOutcome:
    arguments: dict[str, Any] = {"concurrency": 1, "sampling": GREEDY, "request_timeout_s": 5, **options}
    target = arguments.pop("target", None) or Target(server.base_url, "tiny")
    return await run_load(target, _prompts(count), **arguments)


async def _one_failure(answer: Callable[..., Any], **options: Any) -> RequestRecord:
    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server, **options)
    assert outcome.records[0].error is not None
    assert outcome.records[0].text_sha256 is None
    return outcome.records[0]


async def test_every_prompt_is_sent_once_and_comes_back_in_order_with_its_times() -> None:
    async with serving(FakeServer(delay_s=0.002)) as server:
        seen: list[str] = []
        done: list[str] = []
        outcome = await _run(
            server, 9, concurrency=3, on_record=lambda r: seen.append(r.prompt_id), on_progress=done.append
        )
    assert server.max_in_flight == 3
    assert [record.prompt_id for record in outcome.records] == seen == [f"p-{i}" for i in range(9)]
    assert sorted(done) == sorted(seen)
    for record in outcome.records:
        assert record.error is None
        moments = [record.scheduled_s, record.sent_s, record.first_token_s, record.last_token_s, record.end_s]
        known = [moment for moment in moments if moment is not None]
        assert len(known) == 5
        assert all(earlier <= later for earlier, later in pairwise(known))
        assert (record.completion_tokens, record.chunk_tokens) == (TOKENS, (1, 3, 3, 3, 3))
    assert outcome.duration_s == max(record.end_s for record in outcome.records)
    assert outcome.mean_in_flight == pytest.approx(3, abs=0.4)
    assert outcome.loop_lag_p99_ms is not None


async def test_a_slot_schedules_its_next_request_at_the_end_of_its_last() -> None:
    async with serving(FakeServer(delay_s=0.002)) as server:
        outcome = await _run(server, 3)
    first, second, third = outcome.records
    assert (second.scheduled_s, third.scheduled_s) == (first.end_s, second.end_s)


async def test_all_sampling_parameters_and_an_own_request_id_are_sent() -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9, top_k=20, min_p=0.1, seed=7, max_tokens=5, ignore_eos=True,
                        enable_thinking=False)  # fmt: skip
    async with serving(FakeServer()) as server:
        outcome = await _run(
            server, 2, sampling=sampling, cache_salt="s", target=Target(server.base_url, "tiny", api_key=KEY)
        )
    assert server.bodies[0] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "question 0"}],
        "max_tokens": 5,
        "temperature": 0.8,
        "top_p": 0.9,
        "top_k": 20,
        "min_p": 0.1,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "seed": 7,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
        "cache_salt": "s",
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    assert [h["X-Request-Id"] for h in server.headers] == [record.request_id for record in outcome.records]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_the_completions_endpoint_gets_a_prompt_and_refuses_a_conversation() -> None:
    target = Target("http://h:1/v1/", "tiny", "completions")
    assert target.url == "http://h:1/v1/completions"
    assert b'"prompt":"question 0"' in request_body(target, _prompts(1)[0], GREEDY)
    turns = (
        Message(role="user", content="a"),
        Message(role="assistant", content="b"),
        Message(role="user", content="c"),
    )
    with pytest.raises(SpecdeckError, match="conversation of 3 messages"):
        request_body(target, Prompt(id="x", category="c", messages=turns), GREEDY)


async def test_connections_are_open_before_the_clock_starts_and_are_used_again() -> None:
    ports: set[Any] = set()

    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
        return response

    async with serving(FakeServer(answer=answer)) as server:
        await _run(server, 8, concurrency=2)
    assert len(ports) == 2


async def test_a_refused_connection_is_a_connect_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = FakeServer(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}")
        outcome = await _run(server, 1)
    assert outcome.records[0].error is not None
    assert outcome.records[0].error.kind == "connect"
    assert outcome.records[0].sent_s is None


@pytest.mark.parametrize(
    ("status", "body", "content_type", "says"),
    [
        (400, '{"error": {"message": "max_tokens is too large"}}', "application/json", "max_tokens is too large"),
        (422, '{"detail": "bad field"}', "application/json", "bad field"),
        (503, "<html><style>b{}</style><h1>Service   down</h1></html>", "text/html", ": Service down"),
        (500, "", "text/plain", "(empty body)"),
        (200, "<html><body>login</body></html>", "text/html", "text/html instead of an event stream: login"),
        (200, '{"choices": []}', "application/json", "application/json instead of an event stream"),
    ],
)
async def test_answers_that_are_no_stream_are_classified_with_what_they_say(
    status: int, body: str, content_type: str, says: str
) -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        return web.Response(status=status, text=body, content_type=content_type)

    record = await _one_failure(answer)
    assert record.error is not None
    assert (record.error.kind, record.error.status) == ("protocol" if status == 200 else "http", status)
    assert says in record.error.message


async def test_a_rate_limit_names_when_to_come_back() -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        return web.Response(status=429, text="slow down", headers={"Retry-After": "7"})

    record = await _one_failure(answer)
    assert record.error is not None
    assert "Retry-After: 7" in record.error.message


async def test_a_server_that_dies_in_mid_stream_is_a_stream_error_and_its_text_is_kept() -> None:
    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk("half", 2))
        await asyncio.sleep(0.05)
        await drop_connection(request)
        return response

    record = await _one_failure(answer)
    assert record.error is not None
    assert (record.error.kind, record.text, record.completion_tokens) == ("stream", "half", 2)


async def test_a_server_that_hangs_up_before_answering_is_a_stream_error_and_not_tried_again() -> None:
    calls: list[int] = []

    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        calls.append(1)
        await drop_connection(request)
        return web.Response()

    record = await _one_failure(answer)
    assert record.error is not None
    assert record.error.kind == "stream"
    assert len(calls) == 1


async def test_a_stream_that_never_ends_is_cut_off_at_the_time_limit() -> None:
    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for i in range(1000):
            await response.write(chunk("x", i + 1))
            await asyncio.sleep(0.01)
        return response

    record = await _one_failure(answer, request_timeout_s=0.3)
    assert record.error is not None
    assert record.error.kind == "timeout"
    assert record.text.startswith("xxx")
    assert 0.3 <= record.end_s < 5


async def test_a_connection_that_lingers_after_done_does_not_delay_or_spoil_the_answer() -> None:
    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"".join(answer_events(speculative=True)))
        await asyncio.sleep(4)
        return response

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server)
    assert outcome.records[0].error is None
    assert outcome.records[0].end_s < 3.5


async def test_error_messages_never_show_the_key_or_other_credentials() -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        said = f"key {KEY} refused; Authorization: Bearer abc.def-123 from https://user:pass@host/x"
        return web.Response(status=401, text=said)

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server, target=Target(server.base_url, "tiny", api_key=KEY))
        assert KEY not in repr(Target(server.base_url, "tiny", api_key=KEY))
    assert outcome.records[0].error is not None
    message = outcome.records[0].error.message
    assert "refused" in message
    assert not any(secret in message for secret in (KEY, "abc.def", "pass"))


async def test_after_many_failures_in_a_row_the_rest_is_recorded_as_not_sent() -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        return web.Response(status=500, text="broken")

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server, 20)
    kinds = [record.error.kind for record in outcome.records if record.error]
    assert kinds == ["http"] * 5 + ["cancelled"] * 15
    last = outcome.records[-1].error
    assert last is not None
    assert last.message == "not sent: 5 requests in a row had failed"


async def test_the_cell_time_limit_ends_the_load_and_loses_no_record() -> None:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["messages"][0]["content"] not in {"question 0", "question 1"}:
            await asyncio.sleep(30)
        response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
        return response

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server, 10, concurrency=2, request_timeout_s=60, cell_timeout_s=1.5)
    kinds = [record.error.kind if record.error else "ok" for record in outcome.records]
    assert kinds == ["ok"] * 2 + ["timeout"] * 2 + ["cancelled"] * 6
    assert 1.4 < outcome.duration_s < 10
    assert outcome.records[-1].error is not None
    assert outcome.records[-1].error.message == "not sent: the cell's time limit of 1.5 s passed"


async def test_cancelling_closes_everything_and_restores_the_collector() -> None:
    async with serving(FakeServer(delay_s=0.2)) as server:
        before = asyncio.all_tasks()
        task = asyncio.create_task(_run(server, 4, concurrency=2))
        await asyncio.sleep(0.4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gc.isenabled()
        await asyncio.sleep(0.3)
        assert server.in_flight == 0
        assert {t for t in asyncio.all_tasks() - before if "specdeck" in repr(t)} == set()


async def test_an_answer_split_at_every_byte_is_read_whole() -> None:
    async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
        whole = b"".join([chunk("grün 🦆", 2, "stop"), *answer_events(speculative=True)[-2:]])
        response: web.StreamResponse = await server.stream(request, [whole[i : i + 1] for i in range(len(whole))])
        return response

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server)
    assert outcome.records[0].error is None
    assert outcome.records[0].text == "grün 🦆"


def test_mean_in_flight_is_the_time_average() -> None:
    def record(sent: float | None, end: float) -> RequestRecord:
        return RequestRecord(request_id="", index=0, prompt_id="", category="", scheduled_s=0.0, sent_s=sent, end_s=end)

    assert mean_in_flight([record(0.0, 1.0), record(0.5, 2.0), record(None, 2.0)], 2.0) == pytest.approx(1.25)
    assert mean_in_flight([], 0.0) is None


async def test_warm_up_sends_what_is_asked_and_tells_failures() -> None:
    async with serving(FakeServer()) as server:
        target = Target(server.base_url, "tiny")
        assert await warm_up(target, _prompts(2), 5, sampling=GREEDY) == []
        sent = [body["messages"][0]["content"] for body in server.bodies]
        assert sorted(sent) == ["question 0"] * 3 + ["question 1"] * 2
        server.model = "other"

        async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
            return web.Response(status=404, text="no such model")

        server.answer = answer
        assert await warm_up(target, _prompts(2), 3, sampling=GREEDY) == ["p-0: http: 404 Not Found: no such model"]


async def test_an_open_loop_schedules_by_the_clock_and_shows_what_waited_in_the_client() -> None:
    due = (0.0, 0.05, 0.1, 0.15, 0.2)
    async with serving(FakeServer(delay_s=0.05)) as server:
        outcome = await _run(server, 5, concurrency=1, moments=[Moment(at) for at in due])
    assert server.max_in_flight == 1
    assert [record.error for record in outcome.records] == [None] * 5
    assert [record.scheduled_s for record in outcome.records] == pytest.approx(due)
    waits = [record.sent_s - record.scheduled_s for record in outcome.records if record.sent_s is not None]
    assert waits[-1] > 4 * 0.3 - 0.2, "each answer takes at least 0.3 s, and the fifth waits for four"
    assert all(record.first_token_s - record.scheduled_s > wait  # type: ignore[operator]
               for record, wait in zip(outcome.records, waits, strict=True))  # fmt: skip


async def test_an_open_loop_does_not_wait_for_answers_while_it_may_have_more_in_flight() -> None:
    async with serving(FakeServer(delay_s=0.1)) as server:
        outcome = await _run(server, 6, concurrency=6, moments=[Moment(i * 0.02) for i in range(6)])
    assert server.max_in_flight == 6
    assert max(record.sent_s or 0 for record in outcome.records) < min(record.end_s for record in outcome.records)


async def test_an_open_loop_gives_up_on_a_dead_server_and_records_what_was_not_sent() -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        return web.Response(status=500, text="broken")

    async with serving(FakeServer(answer=answer)) as server:
        outcome = await _run(server, 20, moments=[Moment(i * 0.03) for i in range(20)])
    kinds = [record.error.kind for record in outcome.records if record.error]
    assert len(kinds) == 20
    assert kinds[:5] == ["http"] * 5
    assert kinds[-1] == "cancelled"
    last = outcome.records[-1]
    assert last.error is not None
    assert last.error.message == "not sent: 5 requests in a row had failed"


async def test_slots_of_a_closed_loop_begin_one_after_another_where_a_ramp_is_asked_for() -> None:
    async with serving(FakeServer(delay_s=0.3)) as server:
        outcome = await _run(server, 4, concurrency=4, ramp_up_s=0.4)
    assert [record.scheduled_s for record in outcome.records] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert all((record.sent_s or 0) >= record.scheduled_s for record in outcome.records)


async def test_a_repeated_prompt_of_a_cold_load_has_a_cache_of_its_own_and_others_share_the_loads() -> None:
    async with serving(FakeServer()) as server:
        target, prompts = Target(server.base_url, "tiny"), _prompts(2)
        await run_load(
            target, [*prompts, *prompts], concurrency=1, sampling=GREEDY, request_timeout_s=5, cache_salt="s",
            salt_repeats=True,
        )  # fmt: skip
        assert [body["cache_salt"] for body in server.bodies] == ["s", "s", "s-1", "s-1"]


async def test_stage_and_output_budget_of_a_request_are_sent_and_kept_with_it() -> None:
    prompts = [msgspec.structs.replace(prompt, max_tokens=5 + n) for n, prompt in enumerate(_prompts(2))]
    async with serving(FakeServer()) as server:
        outcome = await run_load(
            Target(server.base_url, "tiny"), prompts, concurrency=1, sampling=GREEDY, request_timeout_s=5,
            moments=[Moment(0.0, 1), Moment(0.01, 2)],
        )  # fmt: skip
    assert [body["max_tokens"] for body in server.bodies] == [5, 6]
    assert [(record.stage, record.max_tokens) for record in outcome.records] == [(1, 5), (2, 6)]


def _talk(name: str, *follow_ups: str) -> Prompt:
    return Prompt(id=name, category="c", prompt=f"{name} begins", follow_ups=follow_ups)


async def test_each_turn_carries_all_that_was_really_said_before_it() -> None:
    async with serving(FakeServer()) as server:
        outcome = await run_load(
            Target(server.base_url, "tiny"), [_talk("a", "more", "and more"), _talk("b")], concurrency=1,
            sampling=GREEDY, request_timeout_s=5, cache_salt="s",
        )  # fmt: skip
    said = [[(m["role"], m["content"]) for m in body["messages"]] for body in server.bodies]
    answer = ("assistant", "abcdbcdbcdbcd")
    assert said == [
        [("user", "a begins")],
        [("user", "a begins"), answer, ("user", "more")],
        [("user", "a begins"), answer, ("user", "more"), answer, ("user", "and more")],
        [("user", "b begins")],
    ]
    assert [record.prompt_id for record in outcome.records] == ["a", "a/turn-2", "a/turn-3", "b"]
    assert all(record.error is None for record in outcome.records)
    assert {body["cache_salt"] for body in server.bodies} == {"s"}
    first, second, *_ = outcome.records
    assert second.scheduled_s == first.end_s, "a turn is due when the last one has been answered"


async def test_conversations_run_side_by_side_as_many_as_asked_for() -> None:
    async with serving(FakeServer(delay_s=0.05)) as server:
        outcome = await run_load(
            Target(server.base_url, "tiny"), [_talk(name, "more") for name in "abc"], concurrency=2, sampling=GREEDY,
            request_timeout_s=5,
        )  # fmt: skip
    assert server.max_in_flight == 2
    assert [record.prompt_id for record in outcome.records] == [f"{n}{t}" for n in "abc" for t in ("", "/turn-2")]


async def test_a_failed_turn_ends_its_conversation_and_the_others_go_on() -> None:
    async with serving(FakeServer()) as server:

        async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            if body["messages"][-1]["content"] == "fail":
                return web.Response(status=500, text="broken")
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        outcome = await run_load(
            Target(server.base_url, "tiny"), [_talk("a", "fail", "never"), _talk("b", "more")], concurrency=1,
            sampling=GREEDY, request_timeout_s=5,
        )  # fmt: skip
    told = [record.error.message if record.error else "" for record in outcome.records]
    assert [bool(text) for text in told] == [False, True, True, False, False]
    assert told[2] == "not sent: an earlier turn of its conversation failed"


async def test_an_open_loop_cannot_hold_conversations() -> None:
    with pytest.raises(ValueError, match="open loop"):
        await run_load(
            Target("http://127.0.0.1:9", "m"), [_talk("a", "more")], concurrency=1, sampling=GREEDY,
            request_timeout_s=5, moments=[Moment(0.0)],
        )  # fmt: skip
