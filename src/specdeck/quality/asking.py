"""Whole answers of a server, with token ids and log probabilities, and every failure told apart.

Not for timing (specdeck.load is): requests are not streamed, and answers are read when they are complete.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from specdeck.engine.http import Http, Unreachable
from specdeck.load.exchange import error_text
from specdeck.telemetry.counters import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from specdeck.engine.http import Answer

Endpoint = Literal["chat", "completions"]
_PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
TOP = 5
"""Candidates asked for at each position of an answer; vLLM allows 20 unless told otherwise."""


class AskError(Exception):
    """A request without a usable answer.

    Attributes:
        kind: `refused` (the server said no: HTTP 4xx), `failed` (HTTP 5xx), `lost` (no complete answer), `odd` (an
            answer that is not what vLLM sends).
    """

    def __init__(self, kind: Literal["refused", "failed", "lost", "odd"], message: str, status: int | None = None):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        tokens: ids of the answer's tokens; None where the server does not tell them.
        top: for each token of the answer, candidate text to log probability (natural), the chosen one included;
            None where log probabilities were not asked for.
        steps: verification steps, from the answer's own payload; None without one.
        accepted: draft tokens that were accepted in them.
    """

    text: str
    reasoning: str
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    tokens: tuple[int, ...] | None
    chosen: tuple[str, ...] | None
    top: tuple[dict[str, float], ...] | None
    steps: int | None
    accepted: int | None
    raw: dict[str, Any] = field(repr=False, default_factory=dict)

    @property
    def whole(self) -> str:
        """Reasoning and text, so that two answers are equal only when both are."""
        return f"{self.reasoning}\0{self.text}" if self.reasoning else self.text


class Asker:
    """An async context manager around one server."""

    def __init__(self, base_url: str, model: str, api_key: str | None, *, timeout_s: float) -> None:
        self.base_url = base_url
        self.model = model
        self._http = Http(base_url, api_key)
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send one request with the model's name in it and return the answer's JSON object.

        Raises:
            AskError: there is none.
        """
        return _object(
            await self._send(self._http.post(path, {"model": self.model, **body}, timeout_s=self._timeout_s))
        )

    async def get(self, path: str) -> dict[str, Any]:
        """Send GET and return the answer's JSON object.

        Raises:
            AskError: there is none.
        """
        return _object(await self._send(self._http.get(path, timeout_s=self._timeout_s)))

    async def ask(self, prompt: dict[str, Any], **options: Any) -> Reply:
        """Send one prompt, greedily unless told otherwise, and read the whole answer.

        Args:
            prompt: `{"messages": […]}` for chat, `{"prompt": text or token ids}` for completions.
            options: sampling parameters. `max_tokens` is required; `top` asks for that many candidates a position.

        Raises:
            AskError: no answer, or not one of vLLM's.
        """
        endpoint: Endpoint = "chat" if "messages" in prompt else "completions"
        top = options.pop("top", 0)
        body = {"temperature": 0, "return_token_ids": True, **prompt, **options}
        if top:
            body |= {"logprobs": True, "top_logprobs": top} if endpoint == "chat" else {"logprobs": top}
        return read_reply(await self.post(_PATHS[endpoint], body), endpoint)

    async def tokenize(self, text: str) -> list[int]:
        """The server's own token ids of a text, special tokens in it recognised, none added.

        Raises:
            AskError: no answer, or not one of vLLM's.
        """
        found = (await self.post("/tokenize", {"prompt": text, "add_special_tokens": False})).get("tokens")
        if not isinstance(found, list) or not all(isinstance(token, int) for token in found):
            raise AskError("odd", "/tokenize gave no tokens")
        return found

    async def snapshot(self) -> Snapshot:
        """The server's counters now.

        Raises:
            AskError: there are none.
            SpecdeckError: the text is damaged.
        """
        answer = await self._send(self._http.get("/metrics", timeout_s=self._timeout_s))
        return Snapshot.parse(answer.text, self.model, where=f"{self.base_url}/metrics")

    async def healthy(self) -> bool:
        """Whether /health says so within 5 s."""
        try:
            return (await self._http.get("/health", timeout_s=5)).status == 200
        except Unreachable:
            return False

    async def _send(self, request: Awaitable[Answer]) -> Answer:
        try:
            answer = await request
        except Unreachable as reason:
            raise AskError("lost", str(reason)) from None
        if answer.status == 200:
            return answer
        said = f"HTTP {answer.status}: {error_text(answer.text.encode())[:400]}"
        raise AskError("refused" if answer.status < 500 else "failed", said, answer.status)


async def gather(
    width: int, requests: Sequence[Callable[[], Awaitable[Reply]]], done: Callable[[], None]
) -> list[Reply]:
    """Make requests, at most `width` in flight, and return their answers in the order given.

    Raises:
        AskError: the first one that failed; the others are cancelled.
    """
    gate = asyncio.Semaphore(width)

    async def one(request: Callable[[], Awaitable[Reply]]) -> Reply:
        async with gate:
            reply = await request()
        done()
        return reply

    tasks = [asyncio.ensure_future(one(request)) for request in requests]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def read_reply(body: dict[str, Any], endpoint: Endpoint) -> Reply:
    """Read an answer of vLLM.

    Raises:
        AskError: it is not one.
    """
    try:
        choice, usage = body["choices"][0], body["usage"]
        message = choice["message"] if endpoint == "chat" else {"content": choice["text"]}
        chosen, top = _candidates(choice.get("logprobs"), endpoint)
        details = usage.get("prompt_tokens_details") or {}
        spec = (body.get("metrics") or {}).get("speculative_decoding") or {}
        tokens = choice.get("token_ids")
        return Reply(
            text=message.get("content") or "",
            reasoning=message.get("reasoning") or message.get("reasoning_content") or "",
            finish_reason=choice.get("finish_reason"),
            prompt_tokens=int(usage["prompt_tokens"]),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            cached_tokens=details.get("cached_tokens"),
            tokens=None if tokens is None else tuple(map(int, tokens)),
            chosen=chosen,
            top=top,
            steps=spec.get("num_spec_steps"),
            accepted=spec.get("num_accepted_draft_tokens"),
            raw=body,
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise AskError("odd", f"the answer is not what vLLM sends: {type(error).__name__}: {error}") from error


def _candidates(
    found: dict[str, Any] | None, endpoint: Endpoint
) -> tuple[tuple[str, ...] | None, tuple[dict[str, float], ...] | None]:
    """Chosen token texts, and each position's candidates with the chosen one among them."""
    if not found:
        return None, None
    if endpoint == "chat":
        items = found.get("content") or []
        chosen = tuple(item["token"] for item in items)
        top = tuple(
            {c["token"]: c["logprob"] for c in item.get("top_logprobs") or []} | {item["token"]: item["logprob"]}
            for item in items
        )
        return chosen, top
    chosen = tuple(found["tokens"])
    tops = found.get("top_logprobs") or [{} for _ in chosen]
    return chosen, tuple(
        {**(candidates or {}), token: value}
        for token, value, candidates in zip(chosen, found["token_logprobs"], tops, strict=True)
    )


def _object(answer: Answer) -> dict[str, Any]:
    body = answer.json()
    if not isinstance(body, dict):
        raise AskError("odd", f"the answer is no JSON object: {answer.described}")
    return body
