"""What every runtime hands out: a server that answers at a URL and can be stopped, whatever started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

LAST_LINES = 30


class Server(Protocol):
    """A vLLM server, started by a runtime or attached to."""

    base_url: str
    """`http://host:port`, without `/v1` and without a trailing slash."""
    served_model: str
    api_key: str | None
    log_path: Path | None
    """None: the log is not ours to read."""
    pid: int | None

    async def stop(self, *, now: bool = False) -> None:
        """Stop the server and everything it started; a second call does nothing. Attached servers are left alone.

        Args:
            now: do not wait for a clean end.
        """

    def exit_status(self) -> int | None:
        """Return how the server ended (negative: by that signal), or None while it runs or when it is not ours."""

    def last_log(self, n: int = LAST_LINES) -> list[str]:
        """Return the last `n` lines of the log; empty when there is none."""
