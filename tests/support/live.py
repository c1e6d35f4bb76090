"""A real server that the engine tests share, and how they talk to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdeck.load.client import Target

if TYPE_CHECKING:
    import aiohttp

    from specdeck.engine.runtime import Server


@dataclass
class Live:
    """A running server with the proof it gave at its start."""

    arm: str
    server: Server
    proof: dict[str, Any]
    session: aiohttp.ClientSession

    @property
    def target(self) -> Target:
        """The server as the load generator takes it."""
        return Target(self.server.base_url, self.server.served_model)

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Send one request and return the answer; anything but 200 fails the test."""
        url = f"{self.server.base_url}/v1/{path}"
        async with self.session.post(url, json={"model": self.server.served_model, **body}) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == 200, answer
            return answer

    async def chat(self, text: str, **body: Any) -> dict[str, Any]:
        """Ask one chat question, greedily unless told otherwise."""
        options = {"temperature": 0, "max_tokens": 48, **body}
        return await self.post("chat/completions", messages=[{"role": "user", "content": text}], **options)

    async def metrics(self) -> str:
        """The whole exposition."""
        async with self.session.get(f"{self.server.base_url}/metrics") as response:
            return await response.text()
