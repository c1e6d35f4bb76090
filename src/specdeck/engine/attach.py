"""Runtime `attach`: a server that already runs, known by its URL. It is never started, stopped or configured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from specdeck.engine.http import Http, get_models
from specdeck.engine.runtime import LAST_LINES
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.engine.http import Models

API_KEY_VARIABLES = ("SPECDECK_API_KEY", "VLLM_API_KEY", "OPENAI_API_KEY")
_TIMEOUT_S = 15.0


class AttachedServer:
    """Somebody else's server."""

    def __init__(self, base_url: str, served_model: str, api_key: str | None) -> None:
        self.base_url = base_url
        self.served_model = served_model
        self.api_key = api_key
        self.log_path: Path | None = None
        self.pid: int | None = None

    async def stop(self, *, now: bool = False) -> None:
        """Leave the server as it is."""

    def exit_status(self) -> int | None:
        """Return None: how it ends is not ours to know."""
        return None

    def last_log(self, n: int = LAST_LINES) -> list[str]:
        """Return nothing: its log is not ours to read."""
        del n
        return []


async def attach(base_url: str, api_key: str | None = None, *, model: str | None = None) -> AttachedServer:
    """Connect to a running OpenAI-compatible server and find out which model it serves.

    Args:
        base_url: with or without `/v1` at its end; without a scheme, http is meant.
        api_key: sent as a bearer token.
        model: which model to use where it serves several; default: the first one listed.

    Raises:
        SpecdeckError: not a URL, nobody answers, not such a server, the key is refused, or it has no such model.
    """
    url = normalise_url(base_url)
    async with Http(url, api_key) as http:
        models: Models = await get_models(http, timeout_s=_TIMEOUT_S)
    if model is not None and model not in models.names:
        raise SpecdeckError(
            f"the server has no model {model!r}", where=f"{url}/v1/models", fix=f"use one of: {', '.join(models.names)}"
        )
    return AttachedServer(url, model or models.names[0], api_key)


def normalise_url(text: str) -> str:
    """Return `scheme://host:port/prefix` without `/v1` and without a trailing slash.

    Raises:
        SpecdeckError: it is not an http(s) URL, or it carries a user name or password.
    """
    given = text.strip()
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise SpecdeckError(
            f"{given!r} is not a URL", where="--base-url", fix="write for example http://127.0.0.1:8000"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SpecdeckError(
            "the URL carries a user, a password, a query or a fragment, which would end up in results",
            where="--base-url",
            fix="give the plain address, and a key through SPECDECK_API_KEY",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}".rstrip("/")


def api_key_from_environment() -> str | None:
    """Return the first API key that is set: SPECDECK_API_KEY, VLLM_API_KEY, OPENAI_API_KEY."""
    return next((value for name in API_KEY_VARIABLES if (value := os.environ.get(name))), None)
