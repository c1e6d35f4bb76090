"""The prefix cache at the start of a cell: emptied, made unreachable, or left as it is, and which of these it was."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import aiohttp
import orjson

if TYPE_CHECKING:
    from specdeck.load.client import Target
    from specdeck.results.schema import KvCache

RESET_ATTEMPTS = 4
RESET_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class CacheState:
    """How the cell's cache policy is met; `salt` goes into every request of the cell."""

    method: Literal["reset", "salt", "disabled"] | None
    salt: str | None = None


async def prepare_cache(target: Target, policy: str, kv_cache: KvCache | None) -> CacheState:
    """Make sure that a cold cell finds nothing of earlier ones.

    A server in development mode is asked to drop its cache; every other gets a salt of this cell's own, which enters
    the hash of each block, so that older blocks cannot match. Within the cell prompts may still share a prefix.

    Args:
        target: the server.
        policy: `cold` or `warm` (nothing is done).
        kv_cache: what the server says of its cache, if it says.
    """
    if policy != "cold":
        return CacheState(None)
    if kv_cache is not None and kv_cache.enable_prefix_caching is False:
        return CacheState("disabled")
    if await _reset(target):
        return CacheState("reset")
    return CacheState("salt", f"specdeck-{uuid.uuid4().hex}")


async def _reset(target: Target) -> bool:
    """Ask for a reset; False unless the server says that it succeeded. Blocks in use make it fail for a moment."""
    try:
        async with (
            asyncio.timeout(RESET_TIMEOUT_S),
            aiohttp.ClientSession(headers=target.auth_headers) as session,
        ):
            for attempt in range(RESET_ATTEMPTS):
                await asyncio.sleep(0.1 * (2**attempt - 1))
                async with session.post(f"{target.root_url}/reset_prefix_cache") as response:
                    if response.status != 200:
                        return False
                    answer = orjson.loads(await response.read())
                if isinstance(answer, dict) and answer.get("success") is True:
                    return True
    except (TimeoutError, aiohttp.ClientError, OSError, orjson.JSONDecodeError):
        return False
    return False
