"""What is sent: the server to measure and request bodies with every sampling parameter spelled out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from specdeck.load.prompts import Prompt
    from specdeck.results.schema import Sampling


@dataclass(frozen=True)
class Target:
    """A server and the model on it.

    Attributes:
        base_url: scheme, host and port; a trailing `/v1` is accepted.
        api_key: sent as a bearer token, never shown.
    """

    base_url: str
    model: str
    endpoint: Literal["chat", "completions"] = "chat"
    api_key: str | None = field(default=None, repr=False)

    @property
    def root_url(self) -> str:
        """The base URL without a trailing slash or `/v1`."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    @property
    def url(self) -> str:
        """Where requests are posted."""
        return self.root_url + ("/v1/chat/completions" if self.endpoint == "chat" else "/v1/completions")

    @property
    def auth_headers(self) -> dict[str, str]:
        """The Authorization header, when there is a key."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}


def request_body(target: Target, prompt: Prompt, sampling: Sampling, *, cache_salt: str | None = None) -> bytes:
    """Encode one request.

    Penalties are sent although they do nothing at these values: a checkpoint's generation_config.json would
    otherwise set them (and top_k, min_p) behind our back.

    Raises:
        SpecdeckError: a conversation cannot be sent to the completions endpoint, which has no chat template.
    """
    body: dict[str, Any] = {
        "model": target.model,
        **_prompt_part(target, prompt),
        "max_tokens": prompt.max_tokens or sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    if sampling.enable_thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": sampling.enable_thinking}
    if cache_salt is not None:
        body["cache_salt"] = cache_salt
    return orjson.dumps(body)


def _prompt_part(target: Target, prompt: Prompt) -> dict[str, Any]:
    if target.endpoint == "chat":
        if prompt.messages is None:
            return {"messages": [{"role": "user", "content": prompt.text}]}
        return {"messages": [{"role": m.role, "content": m.content} for m in prompt.messages]}
    if prompt.messages is not None and len(prompt.messages) > 1:
        raise SpecdeckError(
            f"prompt {prompt.id!r} is a conversation of {len(prompt.messages)} messages, "
            "and the completions endpoint applies no chat template",
            where=target.url,
            fix="use endpoint: chat in the plan, or a prompt set of single prompts",
        )
    return {"prompt": prompt.text}
