"""A proxy before a real server that spoils whole answers, for faults that a sound server does not produce on demand."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    Spoil = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]

SHARED = 100


def truncate(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the first ten tokens and say that the model stopped."""
    del request
    for choice in answer["choices"]:
        choice["token_ids"] = choice["token_ids"][:10]
        choice["finish_reason"] = "stop"
    return answer


def loop(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Repeat the sixth token to the end of the budget."""
    for choice in answer["choices"]:
        head = choice["token_ids"][:6]
        choice["token_ids"] = head + head[-1:] * (request["max_tokens"] - len(head))
        choice["finish_reason"] = "length"
    return answer


def swap_cached() -> Spoil:
    """Give a request whose first tokens were seen with the same salt the answer of the one that came first."""
    first: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    def spoil(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        prompt = request.get("prompt")
        if not isinstance(prompt, list) or "cache_salt" not in request:
            return answer
        key = (request["cache_salt"], *prompt[:SHARED])
        return {**answer, "choices": first.setdefault(key, answer["choices"])}

    return spoil


@asynccontextmanager
async def proxied(base_url: str, spoil: Spoil) -> AsyncIterator[str]:
    """Run the proxy on a free port of 127.0.0.1; streams and everything but completions pass unchanged."""
    async with aiohttp.ClientSession() as session:

        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            async with session.request(
                request.method, base_url + request.path_qs, data=body, headers={"Content-Type": "application/json"}
            ) as found:
                raw, status, kind = await found.read(), found.status, found.content_type
            asked = json.loads(body) if body else {}
            if status == 200 and "completions" in request.path and not asked.get("stream") and "max_tokens" in asked:
                answer = json.loads(raw)
                if answer["choices"][0].get("token_ids"):
                    raw = json.dumps(spoil(asked, answer)).encode()
            return web.Response(body=raw, status=status, content_type=kind)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
