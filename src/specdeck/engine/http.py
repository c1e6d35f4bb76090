"""The few requests that readiness and attach make, with every odd answer turned into a sentence.

A server that is not there yet, one that is not vLLM, a proxy that answers HTML and a refused key are told apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from types import TracebackType

MAX_BODY = 32 * 2**20


class Unreachable(Exception):  # noqa: N818 - a state while a server starts, not always an error
    """No complete answer: nobody listens, the connection broke, or time ran out."""


@dataclass(frozen=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    kind: str
    text: str

    def json(self) -> Any:
        """Return the parsed body, or None when it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def described(self) -> str:
        """The answer in a few words, for messages."""
        body = " ".join(self.text[:400].split())
        return f"HTTP {self.status}, {self.kind or 'no content type'}: {body[:160] or '(empty)'}"


@dataclass(frozen=True)
class Models:
    """What /v1/models lists."""

    names: tuple[str, ...]
    max_model_len: int | None
    owned_by: str | None


class Http:
    """One client session bound to a server's base URL."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        self.base_url = base_url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session. Proxies of the environment are not used: the server is addressed as it was given."""
        self._session = aiohttp.ClientSession(headers=self._headers, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str, *, timeout_s: float) -> Answer:
        """Send GET.

        Raises:
            Unreachable: there is no complete answer within the time.
        """
        return await self._request("GET", path, None, timeout_s)

    async def post(self, path: str, body: dict[str, Any], *, timeout_s: float) -> Answer:
        """Send POST with a JSON body.

        Raises:
            Unreachable: there is no complete answer within the time.
        """
        return await self._request("POST", path, body, timeout_s)

    async def _request(self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float) -> Answer:
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(
                method, self.base_url + path, json=body, timeout=timeout, allow_redirects=False
            ) as response:
                raw = await _bounded(response)
                return Answer(response.status, response.content_type, raw.decode("utf-8", "replace"))
        except TimeoutError as error:
            raise Unreachable(f"no answer within {timeout_s:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        except ValueError as error:  # a URL or header that cannot be sent
            raise SpecdeckError(
                f"the request cannot be sent: {error}", where=self.base_url, fix="check the URL"
            ) from error


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    raw = bytearray()
    async for block in response.content.iter_chunked(65536):
        raw += block
        if len(raw) > MAX_BODY:
            raise Unreachable(f"the answer is longer than {MAX_BODY // 2**20} MiB")
    return bytes(raw)


async def get_models(http: Http, *, timeout_s: float) -> Models:
    """Ask a server which models it serves.

    Raises:
        SpecdeckError: nobody answers, the key is missing or wrong, or this is no OpenAI-compatible server.
    """
    where = f"{http.base_url}/v1/models"
    try:
        answer = await http.get("/v1/models", timeout_s=timeout_s)
    except Unreachable as error:
        raise SpecdeckError(
            f"no server answers: {error}", where=where, fix="check the address, and that it is up"
        ) from None
    if answer.status in (401, 403):
        raise SpecdeckError(
            f"the server wants an API key (HTTP {answer.status})",
            where=where,
            fix="export SPECDECK_API_KEY=… and try again",
        )
    body = answer.json()
    listed = body.get("data") if isinstance(body, dict) else None
    if answer.status != 200 or not isinstance(listed, list):
        raise SpecdeckError(
            f"this is not an OpenAI-compatible server: {answer.described}",
            where=where,
            fix="give the base URL of a vLLM server, such as http://127.0.0.1:8000",
        )
    models = [item for item in listed if isinstance(item, dict) and isinstance(item.get("id"), str)]
    if not models:
        raise SpecdeckError("the server serves no model", where=where, fix="start it with a model")
    length = models[0].get("max_model_len")
    return Models(
        names=tuple(item["id"] for item in models),
        max_model_len=length if isinstance(length, int) else None,
        owned_by=models[0].get("owned_by"),
    )
