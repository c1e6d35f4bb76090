"""The loopback server: one thread on epoll, rendered bytes, a heap of due times, and a stamp just before each `send`.

Its clock is the client's: CLOCK_MONOTONIC is one for all processes of a machine. Run by process.py.
"""

from __future__ import annotations

import gc
import heapq
import os
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from specdeck.load.loopback.metrics import Counted
from specdeck.load.loopback.shape import HEAD, MODEL, Piece, Shape, render, whole

MAX_HEAD = 2**16
MAX_BODY = 2**26
MAX_KEPT = 200_000
READ_BYTES = 2**16
clock = time.perf_counter


class Truth(msgspec.Struct, frozen=True):
    """What really happened to one request, on the machine's monotonic clock (seconds).

    Attributes:
        received: the request's last byte was read.
        sent: one moment for each chunk that carries tokens, just before its last byte was handed to the kernel.
        tokens: how many each of them carries.
        complete: the whole answer went out.
    """

    request_id: str
    received: float
    sent: tuple[float, ...]
    tokens: tuple[int, ...]
    complete: bool


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    incoming: bytes = b""
    pieces: tuple[Piece, ...] = ()
    at: int = 0
    left: bytes = b""
    begun: float = 0.0
    received: float = 0.0
    request_id: str = ""
    sent: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    waits_to_write: bool = False
    turn: int = 0


class LoopbackServer:
    """Serves until its parent is gone or it is told to stop. One request at a time on each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._connections: dict[int, _Connection] = {}
        self._due: list[tuple[float, int, _Connection]] = []
        self._count = 0
        self._turn = 0
        self._truths: list[Truth] = []
        self._counted = Counted(time.time())

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Serve until the parent process is gone."""
        gc.disable()
        parent = os.getppid()
        check = clock() + 1.0
        while True:
            now = clock()
            if now >= check:
                if os.getppid() != parent:
                    return
                check = now + 1.0
            wait = min(check - now, max(0.0, self._due[0][0] - now) if self._due else 1.0)
            for number, mask in self._epoll.poll(wait):
                if number == self._listener.fileno():
                    self._accept()
                elif (connection := self._connections.get(number)) is not None:
                    if mask & select.EPOLLOUT:
                        self._advance(connection)
                    if mask & ~select.EPOLLOUT:
                        self._read(connection)
            now = clock()
            while self._due and self._due[0][0] <= now:
                _, turn, connection = heapq.heappop(self._due)
                if connection.turn == turn:
                    self._advance(connection)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                accepted, _ = self._listener.accept()
                accepted.setblocking(False)
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections[accepted.fileno()] = _Connection(accepted)
                self._epoll.register(accepted.fileno(), select.EPOLLIN)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.incoming += data
        head, blank, body = connection.incoming.partition(b"\r\n\r\n")
        if not data or (not blank and len(head) > MAX_HEAD):
            self._close(connection)
            return
        if not blank:
            return
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if length > MAX_BODY:
            self._close(connection)
        elif len(body) >= length:
            connection.incoming = body[length:]
            self._answer(connection, request_line, headers, body[:length])

    def _answer(self, connection: _Connection, request_line: str, headers: dict[str, str], body: bytes) -> None:
        method, _, rest = request_line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method == "POST" and path.endswith("/completions"):
            self._begin(connection, path, headers, body)
        elif path == "/truth":
            self._plain(connection, 200, orjson.dumps([msgspec.to_builtins(truth) for truth in self._truths]))
            self._truths.clear()
        elif path.endswith("/metrics"):
            running = sum(bool(other.pieces) for other in self._connections.values())
            self._plain(connection, 200, self._counted.exposition(running), "text/plain; charset=utf-8")
        elif path.endswith("/v1/models"):
            self._plain(connection, 200, orjson.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
        else:
            self._plain(connection, 200 if path.endswith("/health") else 404, b"{}")

    def _begin(self, connection: _Connection, path: str, headers: dict[str, str], body: bytes) -> None:
        now = clock()
        chat = path.endswith("/chat/completions")
        try:
            shape = Shape.from_path(path.split("/")[1])
            wanted: dict[str, Any] = orjson.loads(body)
            tokens = wanted.get("max_tokens") or wanted.get("max_completion_tokens") or 16
            if not wanted.get("stream"):
                self._counted.finished(int(tokens), clock() - now)
                self._plain(connection, 200, orjson.dumps(whole(int(tokens), chat=chat)))
                return
            connection.pieces = render(shape, int(tokens), chat=chat)
        except (msgspec.ValidationError, ValueError, AttributeError, TypeError) as error:
            self._plain(connection, 400, orjson.dumps({"error": {"message": str(error)}}))
            return
        self._count += 1
        # Sixty-four places, a step apart that visits them in no sorted order.
        phase = self._count * 27 % 64 / 64 * shape.interval_ms / 1000 if shape.spread else 0.0
        connection.at, connection.received, connection.begun = 0, now, now + phase
        connection.request_id = headers.get("x-request-id") or f"request-{self._count}"
        connection.sent, connection.tokens = [], []
        connection.left = HEAD
        self._advance(connection)

    def _plain(self, connection: _Connection, status: int, body: bytes, content_type: str = "application/json") -> None:
        head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\nContent-Type: {content_type}\r\n"
        connection.left = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        connection.pieces, connection.at = (), 0
        self._advance(connection)

    def _advance(self, connection: _Connection) -> None:
        """Send what is due; come back when the next piece is, or when the socket takes more."""
        pieces, send = connection.pieces, connection.socket.send
        connection.turn = 0
        try:
            while True:
                if connection.left:
                    connection.left = connection.left[send(connection.left) :]
                    if connection.left:
                        raise BlockingIOError
                if connection.at == len(pieces):
                    break
                due_s, data, tokens = pieces[connection.at]
                due, now = connection.begun + due_s, clock()
                if due > now:
                    self._turn = connection.turn = self._turn + 1
                    heapq.heappush(self._due, (due, self._turn, connection))
                    break
                connection.at += 1
                if tokens:
                    connection.sent += [now] * len(tokens)
                    connection.tokens += tokens
                connection.left = data
        except BlockingIOError:
            self._wait_to_write(connection, wait=True)
            return
        except OSError:
            self._close(connection)
            return
        self._wait_to_write(connection, wait=False)
        if pieces and connection.at == len(pieces):
            self._end(connection, complete=True)

    def _wait_to_write(self, connection: _Connection, *, wait: bool) -> None:
        if wait != connection.waits_to_write:
            connection.waits_to_write = wait
            mask = select.EPOLLIN | select.EPOLLOUT if wait else select.EPOLLIN
            self._epoll.modify(connection.socket.fileno(), mask)

    def _end(self, connection: _Connection, *, complete: bool) -> None:
        if complete:
            first = connection.sent[0] - connection.received if connection.sent else None
            self._counted.finished(sum(connection.tokens), first)
        if len(self._truths) < MAX_KEPT:
            self._truths.append(
                Truth(
                    connection.request_id,
                    connection.received,
                    tuple(connection.sent),
                    tuple(connection.tokens),
                    complete,
                )
            )
        connection.request_id, connection.pieces, connection.at = "", (), 0

    def _close(self, connection: _Connection) -> None:
        if connection.pieces:
            self._end(connection, complete=False)
        self._connections.pop(connection.socket.fileno(), None)
        connection.turn = 0
        with suppress(OSError):
            self._epoll.unregister(connection.socket.fileno())
        connection.socket.close()


def main() -> None:
    """Print the port, then serve."""
    server = LoopbackServer()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        server.serve()


if __name__ == "__main__":
    main()
