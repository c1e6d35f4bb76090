"""A cell brackets its load between two idle readings; whatever goes wrong becomes a finding, never an exception."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web
from support.fake_server import DRAFTED, STEPS, TOKENS, FakeServer, answer_events, serving

from specdeck.load.client import Target
from specdeck.load.prompts import Prompt
from specdeck.load.stages import Stage
from specdeck.results.schema import HostUse, KvCache, RequestError, RequestRecord, Sampling
from specdeck.results.store import RunStore
from specdeck.run.cache import prepare_cache
from specdeck.run.cell import CellSpec, Measured, energy_per_token, measure_cell
from specdeck.run.idle import read_metrics, wait_idle
from specdeck.run.shape import Shape

if TYPE_CHECKING:
    from pathlib import Path

PROMPTS = [Prompt(id=f"p-{i}", category="c", prompt=f"question {i}") for i in range(4)]


def _spec(**changes: Any) -> CellSpec:
    values: dict[str, Any] = {
        "arm": "mtp",
        "cell_id": "c2-r1",
        "concurrency": 2,
        "round": 1,
        "order": 3,
        "sampling": Sampling(temperature=0.0, max_tokens=TOKENS),
        "method": "mtp",
        "num_speculative_tokens": DRAFTED,
        "request_timeout_s": 5,
        "idle_timeout_s": 1.0,
        **changes,
    }
    return CellSpec(**values)


async def _measure(server: FakeServer, **changes: Any) -> Measured:
    return await measure_cell(Target(server.base_url, "tiny"), PROMPTS, _spec(**changes))


def _codes(measured: Measured) -> dict[str, str]:
    """Findings by code, less `client_limited`: the double runs in the client's own process and may well slow it."""
    found: dict[str, str] = {finding.code: finding.severity for finding in measured.cell.findings}
    found.pop("client_limited", None)
    return found


async def test_a_sound_cell_is_whole_and_its_counters_are_its_own(tmp_path: Path) -> None:
    async with serving(FakeServer(requests=11)) as server:
        done: list[str] = []
        measured = await measure_cell(Target(server.base_url, "tiny"), PROMPTS, _spec(), on_request=done.append)
    cell = measured.cell
    assert _codes(measured) == {}
    assert (cell.status, cell.num_requests, cell.num_failed) == ("ok", 4, 0)
    assert (cell.counters.drafts, cell.counters.requests_success) == (4 * STEPS, 4)
    assert cell.counters.accepted_per_pos == (4 * STEPS, 4 * STEPS, 0)
    assert (cell.arm, cell.order, cell.cache_policy, cell.cache_method) == ("mtp", 3, "cold", "salt")
    assert cell.server_start_time == server.start_time
    assert cell.client.requested_concurrency == 2
    assert cell.host.cpu_percent is not None
    assert sorted(done) == [prompt.id for prompt in PROMPTS]
    assert (
        f'request_success_total{{finished_reason="length",engine="0",model_name="tiny"}} {11.0}' in measured.before_text
    )
    assert (
        f'request_success_total{{finished_reason="length",engine="0",model_name="tiny"}} {15.0}' in measured.after_text
    )
    assert cell.duration_s > 0


async def test_every_request_of_a_cold_cell_carries_the_cells_own_salt_and_warm_ones_none() -> None:
    async with serving(FakeServer()) as server:
        await _measure(server)
        await _measure(server)
        warm = await _measure(server, cache_policy="warm")
    salts = [body.get("cache_salt") for body in server.bodies]
    assert salts[0] is not None
    assert salts == [salts[0]] * 4 + [salts[4]] * 4 + [None] * 4
    assert salts[0] != salts[4]
    assert (warm.cell.cache_policy, warm.cell.cache_method) == ("warm", None)


async def test_a_server_that_resets_its_cache_needs_no_salt_and_one_that_fails_to_gets_one() -> None:
    async with serving(FakeServer(reset_answer={"success": True})) as server:
        target = Target(server.base_url, "tiny")
        measured = await _measure(server)
        assert measured.cell.cache_method == "reset"
        assert "cache_salt" not in server.bodies[0]
        server.reset_answer = {"success": False}
        state = await prepare_cache(target, "cold", None)
        assert (state.method, bool(state.salt)) == ("salt", True)
        assert (await prepare_cache(target, "cold", KvCache(enable_prefix_caching=False))).method == "disabled"
    assert (await prepare_cache(target, "cold", None)).method == "salt", "a server that is gone is not our concern here"


async def test_hits_in_a_cold_cell_are_told() -> None:
    async with serving(FakeServer()) as server:

        async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            server.requests += 1
            server.hits += 3
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        measured = await _measure(server)
    assert _codes(measured) == {"cache_hits": "warning"}
    assert measured.cell.status == "ok"


async def test_foreign_requests_make_the_cell_invalid() -> None:
    async with serving(FakeServer()) as server:

        async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
            server.requests += 2 if body["messages"][0]["content"] == "question 0" else 1
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        measured = await _measure(server)
    assert _codes(measured) == {"contaminated": "invalid"}
    assert measured.cell.status == "invalid"


async def test_a_server_that_is_busy_before_is_waited_for_and_told_when_it_stays_so() -> None:
    async with serving(FakeServer(running=1)) as server:

        async def release() -> None:
            await asyncio.sleep(0.3)
            server.running = 0

        settled, _ = await asyncio.gather(wait_idle(Target(server.base_url, "tiny"), timeout_s=3), release())
        assert settled.idle
        server.running = 2
        measured = await _measure(server, idle_timeout_s=0.3)
    assert _codes(measured) == {"not_idle_before": "invalid", "not_idle_after": "invalid"}
    assert "2 running" in measured.cell.findings[0].message


async def test_counters_that_are_flushed_late_are_waited_for() -> None:
    async with serving(FakeServer()) as server:

        async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            asyncio.get_running_loop().call_later(0.1, lambda: setattr(server, "requests", server.requests + 1))
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        measured = await _measure(server)
    assert _codes(measured) == {}


@pytest.mark.parametrize("how", ["start time", "counter fell"])
async def test_a_restart_within_the_cell_leaves_no_counters(how: str) -> None:
    async with serving(FakeServer(requests=50)) as server:

        async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            server.requests = 0
            if how == "start time":
                server.start_time += 60
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        measured = await _measure(server)
    assert _codes(measured) == {"restarted": "invalid"}
    assert measured.cell.counters.drafts is None


async def test_another_model_behind_the_same_address_is_told() -> None:
    async with serving(FakeServer()) as server:

        async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            server.model = "other"
            server.requests += 1
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.answer = answer
        measured = await _measure(server)
    assert _codes(measured)["model_changed"] == "invalid"


@pytest.mark.parametrize(
    ("speculative", "method", "code"), [(False, "mtp", "no_draft_counters"), (True, None, "unexpected_drafts")]
)
async def test_an_arm_that_is_not_what_it_claims_is_told(speculative: bool, method: str | None, code: str) -> None:
    async with serving(FakeServer(speculative=speculative)) as server:
        measured = await _measure(server, method=method)
    assert set(_codes(measured)) == {code}


async def test_failed_requests_are_counted_and_invalidate_the_cell() -> None:
    async def answer(_request: web.Request, _body: dict[str, Any]) -> web.Response:
        return web.Response(status=500, text="broken")

    async with serving(FakeServer(answer=answer)) as server:
        measured = await _measure(server)
    assert measured.cell.num_failed == 4
    assert _codes(measured)["request_errors"] == "invalid"


async def test_without_metrics_the_cell_is_measured_with_a_warning_and_metrics_that_vanish_invalidate_it() -> None:
    def gone() -> str:
        raise web.HTTPNotFound

    async with serving(FakeServer(metrics=gone)) as server:
        measured = await _measure(server, method=None)
        assert _codes(measured) == {"no_metrics": "warning"}
        assert (measured.before_text, measured.cell.counters.prompt_tokens, measured.cell.status) == ("", None, "ok")

        async def answer(request: web.Request, _body: dict[str, Any]) -> web.StreamResponse:
            server.metrics = gone
            response: web.StreamResponse = await server.stream(request, answer_events(speculative=True))
            return response

        server.metrics, server.answer = None, answer
        assert _codes(await _measure(server)) == {"metrics_lost": "invalid"}
        server.metrics, server.answer = (lambda: "vllm:num_requests_running{ 3\n"), None
        assert _codes(await _measure(server)) == {"metrics_damaged": "invalid"}


async def test_fifty_megabytes_of_metrics_are_read_whole() -> None:
    async with serving(FakeServer(requests=7)) as server:
        noise = "".join(f'other_bucket{{le="{i}",path="/v1/{"x" * 450}"}} {i}\n' for i in range(110_000))
        assert len(noise) > 50 * 2**20
        server.metrics = lambda: noise + server.exposition()
        read = await read_metrics(Target(server.base_url, "tiny"), timeout_s=120.0)
    assert read.snapshot is not None, read.reason
    assert read.snapshot.requests_success == 7


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("vllm:spec_decode_num", "vllm:speculation_num", {"no_draft_counters": "warning"}),
        ("vllm:request_success", "vllm:requests_finished", {"witness_missing": "warning"}),
        ("vllm:num_requests_running", "vllm:running", {"idle_unknown": "warning"}),
    ],
)
async def test_a_renamed_series_is_missing_and_told_and_never_zero(old: str, new: str, codes: dict[str, str]) -> None:
    async with serving(FakeServer()) as server:
        server.metrics = lambda: server.exposition().replace(old, new)
        measured = await _measure(server)
    assert _codes(measured) == codes
    counters = measured.cell.counters
    assert 0 not in (counters.drafts, counters.requests_success)


async def test_a_series_that_stands_twice_is_damage_and_not_a_sum() -> None:
    async with serving(FakeServer()) as server:
        server.metrics = lambda: server.exposition() + server.exposition()
        assert _codes(await _measure(server)) == {"metrics_damaged": "invalid"}


async def test_a_cell_by_two_processes_is_as_sound_as_one_by_one() -> None:
    async with serving(FakeServer()) as server:
        measured = await _measure(server, workers=2)
    assert _codes(measured) == {}
    assert measured.cell.client.workers == 2
    assert [record.prompt_id for record in measured.records] == [prompt.id for prompt in PROMPTS]
    assert measured.cell.counters.requests_success == len(PROMPTS)


async def test_a_measured_cell_goes_through_the_store_unchanged(tmp_path: Path) -> None:
    from support.runs import run  # noqa: PLC0415

    async with serving(FakeServer()) as server:
        measured = await _measure(server)
    with RunStore.create(tmp_path, run()) as store:
        store.write_cell(measured.cell, measured.records, measured.before_text, measured.after_text)
        assert store.cells()[0][0] == measured.cell
        assert tuple(store.records("mtp", "c2-r1")) == tuple(measured.records)


async def test_an_open_loop_cell_says_what_rate_was_asked_for_and_what_was_sent() -> None:
    async with serving(FakeServer()) as server:
        measured = await _measure(server, concurrency=5, shape=Shape(request_rate=50.0, burstiness=1e6))
    cell = measured.cell
    assert (cell.request_rate, cell.burstiness, cell.concurrency) == (50.0, 1e6, 5)
    assert cell.client.sent_rate is not None
    assert cell.client.queue_p99_ms is not None
    due = [record.scheduled_s for record in measured.records]
    assert due == pytest.approx([0.02 * number for number in range(len(PROMPTS))], abs=1e-3)


async def test_a_staged_cell_keeps_its_stages_and_each_request_knows_its_own() -> None:
    shape = Shape(stages=(Stage.of(50.0, burstiness=1e6, requests=2), Stage.of(100.0, burstiness=1e6, requests=2)))
    async with serving(FakeServer()) as server:
        measured = await _measure(server, concurrency=4, shape=shape)
    assert [(s.number, s.request_rate, s.start_s, s.duration_s) for s in measured.cell.stages] == [
        (1, 50.0, 0.0, 0.04), (2, 100.0, 0.04, 0.02),
    ]  # fmt: skip
    assert [record.stage for record in measured.records] == [1, 1, 2, 2]
    due = [record.scheduled_s for record in measured.records]
    assert due == pytest.approx([0.0, 0.02, 0.04, 0.05], abs=1e-3)
    assert (measured.cell.request_rate, measured.cell.trace) == (None, None)
    assert measured.cell.client.sent_rate is not None


def test_energy_a_token_is_joules_of_all_gpus_over_all_output_tokens_and_unknown_where_either_is() -> None:
    sound = RequestRecord(
        request_id="r", index=0, prompt_id="p", category="c", scheduled_s=0, end_s=1, completion_tokens=25
    )
    use = HostUse(gpus=({"energy_j": 60.0}, {"energy_j": 40.0}))
    assert energy_per_token(use, [sound, sound]) == 2.0
    assert energy_per_token(HostUse(), [sound]) is None
    assert energy_per_token(HostUse(gpus=({"energy_j": 60.0}, {"energy_j": None})), [sound]) is None
    uncounted = msgspec.structs.replace(sound, completion_tokens=None)
    failed = msgspec.structs.replace(sound, error=RequestError(kind="timeout", message="late"))
    assert energy_per_token(use, [sound, uncounted]) is None
    assert energy_per_token(use, [sound, failed]) is None
