"""The floor: what reading streams costs at least. Blocking epoll, stamps and bytes, no JSON, no errors, no reuse.

Nothing real could use it. It shows what part of a client's cost and error is the client's own.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import sys
import time
from urllib.parse import urlsplit

READ = 2**16
LAST_CHUNK = b"0\r\n\r\n"


def main(url: str, streams: int, requests: int, tokens: int) -> None:
    """Run a closed loop and print, by request id: sent, and the stamp of every chunk."""
    place = urlsplit(url)
    assert place.hostname is not None
    address, path = (place.hostname, place.port or 80), f"{place.path}/v1/chat/completions"
    body = json.dumps({"model": "loopback", "stream": True, "max_tokens": tokens}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nX-Request-Id: "
    epoll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    current: dict[int, str] = {}
    raw: dict[str, list[tuple[float, bytes]]] = {}
    sent: dict[str, float] = {}
    clock = time.perf_counter
    started = 0

    def begin(number: int) -> None:
        nonlocal started
        name = f"floor-{started}"
        started += 1
        raw[name], current[number] = [], name
        sent[name] = clock()
        sockets[number].send(f"{head}{name}\r\n\r\n".encode() + body)

    for _ in range(min(streams, requests)):
        opened = socket.create_connection(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[opened.fileno()] = opened
        epoll.register(opened.fileno(), select.EPOLLIN)
    gc.disable()
    for number in sockets:
        begin(number)
    left = requests
    while left:
        for number, _ in epoll.poll():
            data = sockets[number].recv(READ)
            raw[current[number]].append((clock(), data))
            if data == LAST_CHUNK or data.endswith(b"\r\n" + LAST_CHUNK):
                left -= 1
                if started < requests:
                    begin(number)
    json.dump({name: [sent[name], stamps_of(parts)] for name, parts in raw.items()}, sys.stdout)


def stamps_of(parts: list[tuple[float, bytes]]) -> list[float]:
    """Stamps of the events that carry text, each at the arrival of its last byte."""
    data = b"".join(part for _, part in parts)
    ends, total = [], 0
    for _, part in parts:
        total += len(part)
        ends.append(total)
    stamps, at, start = [], 0, 0
    while (end := data.find(b"\n\n", start)) >= 0:
        event, start = data[start:end], end + 2
        if b'"content":"' in event and b'"content":""' not in event:
            while ends[at] < start:
                at += 1
            stamps.append(parts[at][0])
    return stamps


if __name__ == "__main__":
    main(sys.argv[1], *(int(word) for word in sys.argv[2:5]))
