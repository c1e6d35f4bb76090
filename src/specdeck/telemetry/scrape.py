"""Fetch a server's /metrics, whole. Uses a connection of its own, so that it never takes one from the load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 128 * 2**20


async def scrape(root_url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 20.0) -> str:
    """Return the exposition text of `root_url`/metrics.

    Raises:
        SpecdeckError: no answer in time, not status 200, an HTML page, more than 128 MiB, or not UTF-8.
    """
    url = f"{root_url}/metrics"
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(headers={"Accept": "text/plain", **(headers or {})}) as session,
            session.get(url) as response,
        ):
            if response.status != 200:
                raise _failed(url, f"status {response.status}")
            if response.content_type == "text/html":
                raise _failed(url, "it answered an HTML page")
            body = bytearray()
            async for part in response.content.iter_any():
                body += part
                if len(body) > MAX_BYTES:
                    raise _failed(url, f"it is larger than {MAX_BYTES >> 20} MiB")
            return body.decode("utf-8")
    except TimeoutError as error:
        raise _failed(url, f"no answer within {timeout_s:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise _failed(url, f"{type(error).__name__}: {error}") from error
    except UnicodeDecodeError as error:
        raise _failed(url, "it is not UTF-8") from error


def _failed(url: str, why: str) -> SpecdeckError:
    return SpecdeckError(
        f"the server's counters cannot be read: {why}",
        where=url,
        fix=f"check that the server lives: curl {url}",
    )
