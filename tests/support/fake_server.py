"""A double of vLLM's HTTP surface, for faults that a real server does not produce on demand. Counts as vLLM does."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]

STEPS, DRAFTED, ACCEPTED, PROMPT_TOKENS = 4, 3, 2, 7
TOKENS = 1 + STEPS * (1 + ACCEPTED)


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def usage(tokens: int) -> dict[str, int]:
    """A usage object for `tokens` completion tokens."""
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}


def chunk(text: str, tokens: int, finish: str | None = None, **delta: object) -> bytes:
    """One chat chunk; `tokens` is the running total."""
    choice = {"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}
    return event({"model": "tiny", "choices": [choice], "usage": usage(tokens)})


def answer_events(*, speculative: bool) -> list[bytes]:
    """A whole sound answer: role chunk, first token, then steps of three tokens, usage, [DONE]."""
    role = {"model": "tiny", "choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": usage(0)}
    events = [event(role), chunk("a", 1)]
    for step in range(1, STEPS + 1):
        finish = "length" if step == STEPS else None
        events.append(chunk("bcd", 1 + step * (1 + ACCEPTED), finish))
    last: dict[str, Any] = {"model": "tiny", "choices": [], "usage": usage(TOKENS)}
    if speculative:
        last["metrics"] = {
            "speculative_decoding": {
                "mean_acceptance_length": 1.0 + ACCEPTED,
                "num_spec_steps": STEPS,
                "num_accepted_draft_tokens": STEPS * ACCEPTED,
                "num_draft_tokens": STEPS * DRAFTED,
                "num_spec_tokens": DRAFTED,
                "acceptance_histogram": [0, 0, STEPS, 0],
            }
        }
    return [*events, event(last), b"data: [DONE]\n\n"]


@dataclass
class FakeServer:
    """State of the double. `answer` replaces the sound answer; `metrics_extra` is appended to /metrics."""

    speculative: bool = True
    model: str = "tiny"
    delay_s: float = 0.0
    start_time: float = 1796078092.25
    reset_answer: dict[str, bool] | None = None
    metrics: Callable[[], str] | None = None
    answer: Answer | None = None
    running: int = 0
    requests: int = 0
    hits: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    health: int | None = 200
    """Status of /health; None: the connection is cut."""
    base_url: str = ""
    in_flight: int = 0
    max_in_flight: int = 0

    def exposition(self) -> str:
        """The counters as vLLM writes them."""
        label = f'engine="0",model_name="{self.model}"'
        n = self.requests
        lines = [
            f"process_start_time_seconds {self.start_time}",
            f"vllm:num_requests_running{{{label}}} {float(self.running)}",
            f"vllm:num_requests_waiting{{{label}}} 0.0",
            f"vllm:prompt_tokens_total{{{label}}} {float(n * PROMPT_TOKENS)}",
            f"vllm:generation_tokens_total{{{label}}} {float(n * TOKENS)}",
            f"vllm:prefix_cache_queries_total{{{label}}} {float(n * PROMPT_TOKENS)}",
            f"vllm:prefix_cache_hits_total{{{label}}} {float(self.hits)}",
            f"vllm:num_preemptions_total{{{label}}} 0.0",
            f'vllm:request_success_total{{finished_reason="length",{label}}} {float(n)}',
            f'vllm:request_success_total{{finished_reason="abort",{label}}} 0.0',
        ]
        if self.speculative:
            lines += [
                f"vllm:spec_decode_num_drafts_total{{{label}}} {float(n * STEPS)}",
                f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {float(n * STEPS * DRAFTED)}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {float(n * STEPS * ACCEPTED)}",
            ]
            lines += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{i}"}} '
                f"{float(n * STEPS if i < ACCEPTED else 0)}"
                for i in range(DRAFTED)
            ]
        return "\n".join(lines) + "\n"

    async def stream(self, request: web.Request, parts: list[bytes], content_type: str = "text/event-stream") -> Any:
        """Send `parts` one by one as a streamed answer."""
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for part in parts:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await response.write(part)
        await response.write_eof()
        return response

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers.copy())
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            if self.answer is not None:
                return await self.answer(request, body)
            self.requests += 1
            response: web.StreamResponse = await self.stream(request, answer_events(speculative=self.speculative))
            return response
        finally:
            self.in_flight -= 1

    async def _metrics(self, _request: web.Request) -> web.Response:
        text = self.metrics() if self.metrics is not None else self.exposition()
        return web.Response(text=text)

    async def _health(self, request: web.Request) -> web.Response:
        if self.health is None:
            await drop_connection(request)
        return web.Response(status=self.health or 500)

    async def _reset(self, _request: web.Request) -> web.Response:
        if self.reset_answer is None:
            raise web.HTTPNotFound
        return web.json_response(self.reset_answer)


async def drop_connection(request: web.Request) -> None:
    """Cut the TCP connection, as a dying server does."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(0)


@asynccontextmanager
async def serving(server: FakeServer) -> AsyncIterator[FakeServer]:
    """Run the double on a free port of 127.0.0.1."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server._post)
    app.router.add_post("/v1/completions", server._post)
    app.router.add_get("/metrics", server._metrics)
    app.router.add_get("/health", server._health)
    app.router.add_post("/reset_prefix_cache", server._reset)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.base_url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()
