"""Fetching /metrics ends in text or in an error that names the URL."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from support.fake_server import FakeServer, serving

from specdeck.errors import SpecdeckError
from specdeck.telemetry import scrape as module
from specdeck.telemetry.scrape import scrape


async def test_the_whole_text_comes_back() -> None:
    async with serving(FakeServer()) as server:
        assert await scrape(server.base_url) == server.exposition()


async def test_nothing_there_a_missing_page_and_a_silent_server_are_told_apart() -> None:
    with pytest.raises(SpecdeckError, match="ClientConnectorError"):
        await scrape("http://127.0.0.1:9")
    async with serving(FakeServer()) as server:
        with pytest.raises(SpecdeckError, match="status 404") as caught:
            await scrape(server.base_url + "/nowhere")
        assert caught.value.where == f"{server.base_url}/nowhere/metrics"
    silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(SpecdeckError, match=r"no answer within 0\.1 s"):
            await scrape(f"http://127.0.0.1:{port}", timeout_s=0.1)


async def test_an_html_page_too_much_text_and_bytes_that_are_no_text_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def html(_request: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    async def latin(_request: web.Request) -> web.Response:
        return web.Response(body=b"a \xff\n")

    async def big(_request: web.Request) -> web.Response:
        return web.Response(text="a 1\n" * 100)

    app = web.Application()
    for handler in (html, latin, big):
        app.router.add_get(f"/{handler.__name__}/metrics", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with pytest.raises(SpecdeckError, match="HTML page"):
            await scrape(f"{url}/html")
        with pytest.raises(SpecdeckError, match="not UTF-8"):
            await scrape(f"{url}/latin")
        monkeypatch.setattr(module, "MAX_BYTES", 100)
        with pytest.raises(SpecdeckError, match="larger"):
            await scrape(f"{url}/big")
    finally:
        await runner.cleanup()
