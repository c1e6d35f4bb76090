"""HTTP/1.1 as far as a streamed answer needs it: the response head, and chunked framing taken off afterwards.

Pure. While an answer streams only its last bytes are looked at; the framing is undone when nothing is timed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_HEAD_BYTES = 2**16
HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"\r\n0\r\n\r\n"
_DONE = re.compile(rb"[\r\n]data: ?\[DONE\][\r\n]")
_HEX = frozenset(b"0123456789abcdefABCDEF")


class WireError(Exception):
    """The bytes are not HTTP/1.1."""


@dataclass(frozen=True)
class Head:
    """Status line and headers (names in lower case) of a response.

    Attributes:
        framing: how the end of the body is known; `length` has it in `length`.
        keeps_alive: another request may follow on this connection.
    """

    status: int
    reason: str
    headers: dict[str, str]
    framing: Literal["chunked", "length", "close"]
    length: int
    keeps_alive: bool

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; empty when absent."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def parse_head(data: bytes) -> Head:
    """Read a response head, without the blank line that ends it.

    Raises:
        WireError: no HTTP/1 status line, a header without a colon, or an unreadable length.
    """
    status_line, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = status_line.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
        raise WireError(f"not an HTTP answer: it begins with {status_line[:60]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise WireError(f"not a header: {line[:60]!r}")
        headers[name.strip().lower()] = value.strip()
    status = int(code)
    connection = headers.get("connection", "").lower()
    keeps_alive = "close" not in connection and (version != "HTTP/1.0" or "keep-alive" in connection)
    if headers.get("transfer-encoding", "").lower().rstrip().endswith("chunked"):
        return Head(status, reason, headers, "chunked", 0, keeps_alive)
    length = headers.get("content-length", "0" if status in {204, 304} else "")
    if not length:
        return Head(status, reason, headers, "close", 0, keeps_alive=False)
    if not (length.isascii() and length.isdecimal()):
        raise WireError(f"Content-Length is {length[:40]!r}")
    return Head(status, reason, headers, "length", int(length), keeps_alive)


class Unchunker:
    """Takes chunked framing off a body, segment by segment, so that each segment keeps the time it came.

    Attributes:
        over: the body is complete.
        fed: how many segments it has been given.
    """

    def __init__(self) -> None:
        self.over = False
        self.fed = 0
        self._left = 0
        self._line = b""
        self._expects: Literal["size", "data", "data_end", "trailer"] = "size"

    def feed(self, part: bytes) -> bytes:
        """Return the payload of the next segment; empty where it was framing only.

        Raises:
            WireError: a chunk size that is none, a chunk that ends elsewhere, or bytes after the end.
        """
        self.fed += 1
        payload: list[bytes] = []
        at, size = 0, len(part)
        while at < size:
            if self.over:
                raise WireError("there are bytes after the end of the body")
            if self._expects == "data":
                payload.append(part[at : at + self._left])
                at += len(payload[-1])
                self._left -= len(payload[-1])
                if not self._left:
                    self._expects = "data_end"
                continue
            end = part.find(b"\n", at)
            self._line += part[at:] if end < 0 else part[at : end + 1]
            if len(self._line) > MAX_HEAD_BYTES:
                raise WireError("a line of the chunked framing is too long")
            if end < 0:
                break
            at = end + 1
            self._take_line()
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def _take_line(self) -> None:
        line, self._line = self._line.rstrip(b"\r\n"), b""
        if self._expects == "data_end":
            if line:
                raise WireError(f"a chunk does not end where it should: {line[:40]!r}")
            self._expects = "size"
        elif self._expects == "trailer":
            self.over = not line
        else:
            digits = line.partition(b";")[0].strip()
            if not digits or len(digits) > 16 or not _HEX.issuperset(digits):
                raise WireError(f"not a chunk size: {line[:40]!r}")
            self._left = int(digits, 16)
            self._expects = "data" if self._left else "trailer"


def tail(parts: Sequence[bytes], length: int = 64) -> bytes:
    """The last `length` bytes of a body, however it was cut."""
    found = b""
    for part in reversed(parts):
        found = part + found
        if len(found) >= length:
            break
    return found[-length:]


def is_done(end: bytes) -> bool:
    """Whether a body's last bytes hold the `[DONE]` event: a line of its own, which no JSON text can contain."""
    return _DONE.search(end) is not None
