"""A headless Chromium as the browser tests use it, driven over its DevTools socket."""

from __future__ import annotations

import asyncio
import base64
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

START_S = ANSWER_S = 120.0
"""Generous: the machine may be busy, and nothing is measured."""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
    "about:blank",
)  # fmt: skip


def find() -> str | None:
    """The path of an installed Chromium or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Tab:
    """One tab: commands with answers, and every event that came meanwhile."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._next = 0
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._next += 1
        await self._socket.send_json({"id": self._next, "method": method, "params": params})
        async with asyncio.timeout(ANSWER_S):
            while True:
                message: dict[str, Any] = await self._socket.receive_json()
                if message.get("id") == self._next:
                    assert "error" not in message, message
                    result: dict[str, Any] = message["result"]
                    return result
                self.events.append(message)

    async def open(self, file: Path, *, width: int, dark: bool) -> None:
        """Load a page at that width and colour scheme, and wait until it has loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        self.events.clear()
        await self.call("Page.navigate", url=file.as_uri())
        async with asyncio.timeout(ANSWER_S):
            # Asked again and again: an event may belong to the page before.
            while not await self.evaluate(  # noqa: ASYNC110
                f"document.readyState === 'complete' && location.href === '{file.as_uri()}'"
            ):
                await asyncio.sleep(0.02)

    async def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its value; promises are awaited."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def screenshot(self) -> bytes:
        """The whole page as PNG."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])


@asynccontextmanager
async def tab(binary: str, profile: Path) -> AsyncIterator[Tab]:
    """Start the browser with an empty profile, yield a tab, and end it."""
    process = await asyncio.create_subprocess_exec(
        binary,
        f"--user-data-dir={profile}",
        *FLAGS,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(process, profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                targets = await response.json()
            url = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                made = Tab(socket)
                for domain in ("Page", "Network", "Accessibility"):
                    await made.call(f"{domain}.enable")
                yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _port(process: asyncio.subprocess.Process, file: Path) -> int:
    async with asyncio.timeout(START_S):
        while (port := _read_port(file)) is None:
            assert process.returncode is None, f"the browser ended with {process.returncode}"
            await asyncio.sleep(0.1)
        return port


def _read_port(file: Path) -> int | None:
    """The browser writes the port and a path, a line each."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return int(lines[0]) if len(lines) == 2 else None
