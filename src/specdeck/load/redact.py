"""Keep secrets and markup out of error messages: servers and proxies echo headers back."""

from __future__ import annotations

import re

_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+|%20)[A-Za-z0-9._~+/=-]{4,}")
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@]+@")
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def redact(text: str, api_key: str | None = None) -> str:
    """Remove the API key, bearer and basic credentials, and passwords in URLs."""
    if api_key:
        text = text.replace(api_key, "[redacted]")
    return _USERINFO.sub(r"\1", _BEARER.sub(r"\1 [redacted]", text))


def one_line(text: str, limit: int = 300) -> str:
    """Text without tags and line breaks, at most `limit` characters: an HTML error page becomes its words."""
    words = _SPACE.sub(" ", _TAG.sub(" ", text)).strip()
    return words if len(words) <= limit else words[: limit - 1] + "…"
