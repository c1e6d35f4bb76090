"""A running server is found under any spelling of its URL; what is not one is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specdeck.engine.attach import api_key_from_environment, attach, normalise_url
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async def models(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") not in (None, "Bearer right"):
            return web.Response(status=401, text="no")
        return web.json_response({"data": [{"id": "tiny"}, {"id": "lora"}]})

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    async def nothing(_request: web.Request) -> web.Response:
        return web.json_response({"data": []})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_get("/page/v1/models", page)
    app.router.add_get("/empty/v1/models", nothing)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("")).rstrip("/")
    await server.close()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_any_spelling_of_the_url_finds_the_server(url: str, suffix: str) -> None:
    server = await attach(url + suffix)
    assert server.base_url == url
    assert server.served_model == "tiny"
    assert server.exit_status() is None
    assert server.last_log() == []
    await server.stop()


async def test_one_of_several_models_can_be_chosen(url: str) -> None:
    assert (await attach(url, model="lora")).served_model == "lora"
    with pytest.raises(SpecdeckError, match="no model 'other'"):
        await attach(url, model="other")


async def test_a_refused_key_is_told_without_the_key(url: str) -> None:
    assert (await attach(url, "right")).api_key == "right"
    with pytest.raises(SpecdeckError, match="wants an API key") as caught:
        await attach(url, "wrong-key")
    assert "wrong-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "says"), [("/page", "not an OpenAI-compatible"), ("/empty", "serves no model"), ("/x", "404")]
)
async def test_what_is_no_such_server_is_told_apart(url: str, path: str, says: str) -> None:
    with pytest.raises(SpecdeckError, match=says) as caught:
        await attach(url + path)
    assert caught.value.fix


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(SpecdeckError, match="no server answers") as caught:
        await attach("127.0.0.1:9")
    assert caught.value.where == "http://127.0.0.1:9/v1/models"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8000", "http://localhost:8000"),
        (" https://host/prefix/v1/ ", "https://host/prefix"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_urls_are_brought_into_one_form(text: str, url: str) -> None:
    assert normalise_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://host", "http://", "http://host:99999", "http://host:x", "http://[::1"])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(SpecdeckError, match="is not a URL"):
        normalise_url(text)


@pytest.mark.parametrize("text", ["http://user:secret@host", "http://host?key=secret"])
def test_a_url_with_a_secret_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(SpecdeckError) as caught:
        normalise_url(text)
    assert "secret" not in str(caught.value)


def test_the_first_key_of_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPECDECK_API_KEY", "VLLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert api_key_from_environment() is None
    monkeypatch.setenv("OPENAI_API_KEY", "c")
    assert api_key_from_environment() == "c"
    monkeypatch.setenv("SPECDECK_API_KEY", "a")
    assert api_key_from_environment() == "a"
