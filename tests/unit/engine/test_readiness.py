"""Readiness is proved step by step; every odd server ends in a clear message, in bounded time, and is stopped."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specdeck.engine import readiness
from specdeck.engine.claims import Expectation
from specdeck.engine.readiness import prove_ready
from specdeck.errors import EXIT_FAILED, SpecdeckError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

NONE = Expectation("none", None, None)
MTP = Expectation("mtp", "mtp", 3)


class Vllm:
    """The few routes that readiness uses; every one can be replaced by something broken."""

    def __init__(self) -> None:
        self.model = "tiny"
        self.drafting: int | None = None
        self.drafts_per_answer = 8
        self.answers = 0
        self.authorization: list[str | None] = []
        self.routes: dict[str, Callable[[web.Request], Any]] = {
            "/health": lambda _request: web.Response(),
            "/version": lambda _request: web.json_response({"version": "0.32.0"}),
            "/v1/models": lambda _request: web.json_response({"data": [{"id": self.model, "max_model_len": 2048}]}),
            "/metrics": lambda _request: web.Response(text=self.exposition()),
            "/v1/chat/completions": self.complete,
            "/v1/completions": self.complete,
        }

    def exposition(self) -> str:
        labels = f'engine="0",model_name="{self.model}"'
        lines = [
            f"vllm:num_requests_running{{{labels}}} 0.0",
            f"vllm:generation_tokens_total{{{labels}}} {self.answers * 24}.0",
        ]
        if self.drafting:
            lines.append(f"vllm:spec_decode_num_drafts_total{{{labels}}} {self.answers * self.drafts_per_answer}.0")
            lines += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} 1.0'
                for i in range(self.drafting)
            ]
        return "\n".join(lines) + "\n"

    def complete(self, request: web.Request) -> web.Response:
        self.answers += 1
        self.authorization.append(request.headers.get("Authorization"))
        body: dict[str, Any] = {"choices": [{"text": "one"}], "usage": {"completion_tokens": 24}}
        if self.drafting:
            body["metrics"] = {"speculative_decoding": {"num_spec_tokens": self.drafting}}
        return web.json_response(body)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        found = self.routes.get(request.path)
        if found is None:
            return web.Response(status=404, text="no such route")
        answer = found(request)
        response: web.StreamResponse = await answer if asyncio.iscoroutine(answer) else answer
        return response


class Handle:
    """A server as readiness sees it."""

    served_model = "tiny"

    def __init__(self, base_url: str, log_path: Path | None) -> None:
        self.base_url = base_url
        self.log_path = log_path
        self.api_key: str | None = None
        self.pid: int | None = 4711 if log_path else None
        self.status: int | None = None
        self.stopped = False

    async def stop(self, *, now: bool = False) -> None:
        self.stopped = True

    def exit_status(self) -> int | None:
        return self.status

    def last_log(self, n: int = 30) -> list[str]:
        return self.log_path.read_text().splitlines()[-n:] if self.log_path else []


@pytest.fixture
def vllm() -> Vllm:
    return Vllm()


@pytest.fixture
async def handle(vllm: Vllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Handle]:
    monkeypatch.setattr(readiness, "_SETTLE_S", 0.3)
    monkeypatch.setattr(readiness, "_POLL_S", 0.02)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", vllm.handle)
    server = TestServer(app)
    await server.start_server()
    log = tmp_path / "server.log"
    log.write_text("(APIServer pid=1) INFO 12-01 04:00:00 [a.py:1] Loading weights\n")
    yield Handle(str(server.make_url("")).rstrip("/"), log)
    await server.close()


async def prove(handle: Handle, expected: Expectation | None = NONE, timeout_s: float = 10) -> dict[str, Any]:
    return await prove_ready(handle, expected, timeout_s=timeout_s, progress=lambda _text: None)


async def fails(handle: Handle, expected: Expectation | None = NONE, timeout_s: float = 10) -> SpecdeckError:
    """Prove, expect a failure, and check what holds for all of them."""
    async with asyncio.timeout(timeout_s + 8):
        with pytest.raises(SpecdeckError) as caught:
            await prove(handle, expected, timeout_s)
    assert caught.value.exit_code == EXIT_FAILED
    assert caught.value.fix
    assert caught.value.where
    assert handle.stopped
    return caught.value


async def test_the_steps_are_proved_in_order_and_the_proof_is_json(handle: Handle, vllm: Vllm) -> None:
    vllm.drafting = 3
    proof = await prove(handle, MTP)
    assert [step["step"] for step in proof["steps"]] == ["process", "health", "completion", "claims"]
    assert proof["num_speculative_tokens"] == 3
    assert proof["vllm_version"] == "0.32.0"
    assert proof["probe"] == {
        "endpoint": "chat/completions",
        "completion_tokens": 24,
        "per_request_metrics": True,
        "chat_refused": None,
        "drafts": 8,
    }
    assert "method" in proof["not_checked"]
    assert json.loads(json.dumps(proof)) == proof
    assert not handle.stopped


async def test_a_server_that_is_still_loading_is_waited_for(handle: Handle, vllm: Vllm) -> None:
    answers = iter([503, 503, 200])
    vllm.routes["/health"] = lambda _request: web.Response(status=next(answers))
    assert (await prove(handle))["steps"][1]["step"] == "health"


async def test_a_refused_connection_is_waited_for_as_well(handle: Handle) -> None:
    handle.base_url = "http://127.0.0.1:9"
    error = await fails(handle, timeout_s=1)
    assert "did not answer /health within 1 s and was stopped" in error.what


async def test_a_server_that_dies_while_loading_shows_its_last_lines_and_first_error(handle: Handle) -> None:
    handle.base_url = "http://127.0.0.1:9"
    assert handle.log_path
    body = "".join(f"line {i}\n" for i in range(40))
    handle.log_path.write_text(
        body + "Traceback (most recent call last):\nValueError: bad head size\n"
        "Traceback (most recent call last):\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    handle.status = 1
    error = await fails(handle)
    assert "ended with exit status 1 while loading" in error.what
    assert "first error: ValueError: bad head size" in error.what
    assert error.what.count("\n  | ") == 30
    assert "  | line 39" in error.what


async def test_a_server_that_was_killed_is_told_by_its_signal(handle: Handle) -> None:
    handle.base_url, handle.status = "http://127.0.0.1:9", -9
    error = await fails(handle)
    assert "was ended by signal 9" in error.what
    assert "memory" in str(error.fix)


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/version", "/metrics", "/v1/chat/completions"])
async def test_a_server_that_hangs_is_stopped_at_the_limit(handle: Handle, vllm: Vllm, path: str) -> None:
    async def hang(_request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    vllm.routes[path] = hang
    error = await fails(handle, timeout_s=1)
    assert "1 s" in error.what


async def test_a_server_that_dies_during_the_completion_is_told_so(handle: Handle, vllm: Vllm) -> None:
    async def die(request: web.Request) -> web.Response:
        handle.status = -11
        assert request.transport
        request.transport.abort()
        return web.Response()

    vllm.routes["/v1/chat/completions"] = die
    error = await fails(handle)
    assert "was ended by signal 11 while answering a completion" in error.what


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/health", "/health does not answer as vLLM's does: HTTP 404"),
        ("/v1/models", "not an OpenAI-compatible server"),
        ("/metrics", "there are no counters"),
        ("/v1/completions", ""),
    ],
)
async def test_a_missing_route_names_the_route(handle: Handle, vllm: Vllm, path: str, says: str) -> None:
    del vllm.routes[path]
    if not says:
        assert await prove(handle)  # chat answers, so plain completions are not needed
        return
    assert says in (await fails(handle)).what


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/chat/completions"])
@pytest.mark.parametrize("garbage", ["<html><body>Bad gateway</body></html>", "", "\x00\xff{", '{"data": 3}'])
async def test_garbage_in_place_of_an_answer_is_a_clear_error(
    handle: Handle, vllm: Vllm, path: str, garbage: str
) -> None:
    vllm.routes[path] = lambda _request: web.Response(text=garbage, content_type="text/html")
    assert "Traceback" not in (await fails(handle)).what


async def test_html_at_health_with_status_200_is_not_taken_for_vllm(handle: Handle, vllm: Vllm) -> None:
    page = "<html>It works!</html>"
    vllm.routes = dict.fromkeys(vllm.routes, lambda _request: web.Response(text=page, content_type="text/html"))
    assert "not an OpenAI-compatible server" in (await fails(handle)).what


async def test_counters_of_another_service_are_not_taken_for_vllms(handle: Handle, vllm: Vllm) -> None:
    vllm.routes["/metrics"] = lambda _request: web.Response(text="node_load1 0.5\n")
    assert "no counters of vLLM" in (await fails(handle)).what


async def test_a_model_without_chat_template_is_probed_by_plain_completion(handle: Handle, vllm: Vllm) -> None:
    refusal = {"error": {"message": "As of transformers v4.44, default chat template is no longer allowed"}}
    vllm.routes["/v1/chat/completions"] = lambda _request: web.json_response(refusal, status=400)
    probe = (await prove(handle))["probe"]
    assert probe["endpoint"] == "completions"
    assert "chat template" in probe["chat_refused"]


async def test_an_error_of_the_engine_is_not_mistaken_for_a_missing_template(handle: Handle, vllm: Vllm) -> None:
    vllm.routes["/v1/chat/completions"] = lambda _request: web.json_response({"error": "EngineDeadError"}, status=500)
    assert "gave no completion: HTTP 500" in (await fails(handle)).what


async def test_the_api_key_is_sent_and_a_refused_one_is_named(handle: Handle, vllm: Vllm) -> None:
    handle.api_key = "sesame"
    await prove(handle)
    assert vllm.authorization == ["Bearer sesame"]
    vllm.routes["/v1/chat/completions"] = lambda _request: web.Response(status=401)
    error = await fails(handle)
    assert "wants an API key" in error.what
    assert "sesame" not in str(error)


async def test_a_server_that_drafts_otherwise_than_the_arm_says_is_refused(handle: Handle, vllm: Vllm) -> None:
    vllm.drafting = 5
    error = await fails(handle, MTP)
    assert "not what arm mtp claims" in error.what
    assert "5 tokens a step, the arm says 3" in error.what


async def test_a_server_that_does_not_draft_at_all_is_refused(handle: Handle, vllm: Vllm) -> None:
    vllm.drafting, vllm.drafts_per_answer = 3, 0
    assert "without counting a draft" in (await fails(handle, MTP)).what


async def test_an_arm_without_drafter_on_a_drafting_server_is_refused(handle: Handle, vllm: Vllm) -> None:
    vllm.drafting = 3
    assert "counts drafts" in (await fails(handle, NONE)).what


async def test_an_attached_server_is_not_waited_for_until_the_end_of_the_day(
    handle: Handle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_HEALTH_S", 0.2)
    attached = Handle("http://127.0.0.1:9", None)
    error = await fails(attached, None, timeout_s=30)
    assert "no server answers" in error.what


async def test_an_attached_server_of_unknown_kind_is_recorded_as_seen(handle: Handle, vllm: Vllm) -> None:
    vllm.drafting = 7
    proof = await prove(Handle(handle.base_url, None), None)
    assert proof["num_speculative_tokens"] == 7
    assert proof["method"] is None
    assert proof["steps"][0]["step"] == "health"


async def test_progress_tells_new_log_lines_but_not_too_often(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_PROGRESS_S", 0.1)
    monkeypatch.setattr(readiness, "_REMIND_S", 0.4)
    handle.base_url = "http://127.0.0.1:9"
    told: list[str] = []
    with pytest.raises(SpecdeckError):
        await prove_ready(handle, NONE, timeout_s=1.2, progress=told.append)
    assert told[0].endswith("Loading weights")
    assert any("still waiting for /health" in text for text in told)
    assert len(told) <= 4


async def test_a_cancelled_proof_stops_the_server(handle: Handle) -> None:
    handle.base_url = "http://127.0.0.1:9"
    task = asyncio.create_task(prove(handle))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handle.stopped
