"""One real completion, so that a server counts as ready only when it can generate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from specdeck.engine.http import Answer, Http

MAX_TOKENS = 24
_QUESTION = "Count from one to twenty in words."


@dataclass(frozen=True)
class Probe:
    """What came back.

    Attributes:
        speculative: the answer's own speculative-decoding metrics, where the server sends them.
        chat_refused: why the chat endpoint could not be used, where it was tried in vain.
    """

    endpoint: Literal["chat/completions", "completions"]
    completion_tokens: int
    speculative: dict[str, Any] | None
    chat_refused: str | None

    def summary(self) -> dict[str, Any]:
        """The probe as it goes into the proof."""
        return {
            "endpoint": self.endpoint,
            "completion_tokens": self.completion_tokens,
            "per_request_metrics": self.speculative is not None,
            "chat_refused": self.chat_refused,
        }


async def ask(http: Http, model: str, *, timeout_s: float) -> Probe:
    """Ask for a few tokens by chat, or by plain completion where the model has no chat template.

    Raises:
        Unreachable: there was no complete answer in time.
        SpecdeckError: the server refused, or what came back is no completion.
    """
    common = {"model": model, "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True, "stream": False}
    chat = {**common, "messages": [{"role": "user", "content": _QUESTION}]}
    answer = await http.post("/v1/chat/completions", chat, timeout_s=timeout_s)
    if answer.status in (400, 404) and _about_template(answer):
        refused = answer.described
        answer = await http.post("/v1/completions", {**common, "prompt": _QUESTION}, timeout_s=timeout_s)
        return _read(answer, "completions", refused)
    return _read(answer, "chat/completions", None)


def _about_template(answer: Answer) -> bool:
    return answer.status == 404 or "chat template" in answer.text.lower() or "chat_template" in answer.text.lower()


def _read(answer: Answer, endpoint: Literal["chat/completions", "completions"], refused: str | None) -> Probe:
    if answer.status in (401, 403):
        raise SpecdeckError(
            f"the server wants an API key (HTTP {answer.status})", fix="export SPECDECK_API_KEY=… and try again"
        )
    body = answer.json()
    usage = body.get("usage") if answer.status == 200 and isinstance(body, dict) else None
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(tokens, int) or tokens < 1 or not body.get("choices"):
        raise SpecdeckError(f"/v1/{endpoint} gave no completion: {answer.described}", fix="read the server's log")
    metrics = body.get("metrics")
    speculative = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
    return Probe(endpoint, tokens, speculative if isinstance(speculative, dict) else None, refused)
