"""The same figures from a running server: right answers, acceptance by its own payload, text against another arm.

Held-out problems go to the chat endpoint one at a time, greedily. Needs nothing but Python.
"""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

from .grammar import CATEGORIES, Problem, check, problems

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 300.0


def _call(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not an http address")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 - checked above
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - checked above
        parsed: dict[str, Any] = json.load(response)
    return parsed


def _acceptance(steps: list[list[int]], categories: list[str], n: int) -> str:
    flat = [hits for request in steps for hits in request]
    parts = []
    for category in CATEGORIES:
        own = [hits for request, c in zip(steps, categories, strict=True) if c == category for hits in request]
        if own:
            parts.append(f"{category} {1 + sum(own) / len(own):.3f}")
    rates = " ".join(f"{sum(hits > i for hits in flat) / len(flat):.3f}" for i in range(n))
    length = 1 + sum(flat) / len(flat)
    return f"acceptance length {length:.3f} over {len(flat)} drafts ({', '.join(parts)}); by position {rates}"


def check_server(
    base_url: str, *, seed: int, count: int, max_tokens: int, save: Path | None, against: Path | None
) -> list[str]:
    """Ask `count` held-out problems; the lines to print.

    Right answers need whole replies, so `max_tokens` should be 96; the bench's acceptance is that of 64. `save`
    receives the replies as JSON, `against` holds those of another arm.

    Raises:
        OSError: the server does not answer.
        ValueError: the address is not http, or the answer is not what vLLM sends.
    """
    asked: list[Problem] = problems("held-out", seed, count)
    try:
        model = _call(f"{base_url}/v1/models")["data"][0]["id"]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{base_url} does not answer as vLLM does: {error!r} in its list of models") from error
    replies: list[str] = []
    steps: list[list[int]] = []
    drafts = 0
    for problem in asked:
        body = {"model": model, "messages": problem.messages, "max_tokens": max_tokens, "temperature": 0}
        answer = _call(f"{base_url}/v1/chat/completions", body)
        payload = (answer.get("metrics") or {}).get("speculative_decoding") or {}
        try:
            replies.append(answer["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"{base_url} does not answer as vLLM does: {error!r} in its chat completion") from error
        steps.append(payload.get("per_step_accepted") or [])
        drafts = max(drafts, payload.get("num_spec_tokens") or 0)
    right = {c: [check(p, r) for p, r in zip(asked, replies, strict=True) if p.category == c] for c in CATEGORIES}
    shares = ", ".join(f"{c} {sum(hits)} of {len(hits)}" for c, hits in right.items())
    lines = [f"right answers: {sum(map(sum, right.values()))} of {count} ({shares})"]
    if drafts and any(steps):
        lines.append(_acceptance(steps, [p.category for p in asked], drafts))
    if save:
        save.write_text(json.dumps(replies, indent=0) + "\n", encoding="utf-8")
    if against:
        others = json.loads(against.read_text(encoding="utf-8"))
        same = sum(a == b for a, b in zip(replies, others, strict=True))
        lines.append(f"same text as in {against}: {same} of {count}")
    return lines
