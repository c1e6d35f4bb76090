"""Ports: who holds one, and picking one that is free and stays ours until the server listens on it."""

from __future__ import annotations

import errno
import shlex
import socket

import psutil

from specdeck.errors import SpecdeckError

_ANSWER_S = 0.5
_reserved: dict[int, socket.socket] = {}


def free_port(host: str = "127.0.0.1") -> int:
    """Pick a free port and keep it reserved for this process until `release`.

    The reserving socket is bound but does not listen, with SO_REUSEADDR set: the server, which sets it too, can bind
    the same port and listen, while the kernel hands it to nobody who asks for any free port.

    Raises:
        SpecdeckError: the host has no free port or no such address.
    """
    sock = socket.socket(_family(host), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, 0))
    except OSError as error:
        sock.close()
        raise SpecdeckError(
            f"no port can be had: {error.strerror}", where=host, fix="check the address (ip addr)"
        ) from None
    port = int(sock.getsockname()[1])
    _reserved[port] = sock
    return port


def release(port: int) -> None:
    """Give a reserved port back; unknown ports are ignored."""
    sock = _reserved.pop(port, None)
    if sock is not None:
        sock.close()


def require_free(host: str, port: int) -> None:
    """Refuse a port that somebody listens on, so that a foreign server is never benchmarked by accident.

    Raises:
        SpecdeckError: the port is taken (pid and command of its owner are named) or cannot be bound.
    """
    where = f"{host}:{port}"
    sock = socket.socket(_family(host), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _taken(host, port) from None
        raise SpecdeckError(
            f"port {port} cannot be used: {error.strerror}", where=where, fix="choose another with --port, above 1023"
        ) from None
    except OverflowError:
        raise SpecdeckError(f"{port} is not a port", where=where, fix="use a number from 1024 to 65535") from None
    finally:
        sock.close()
    if answers(host, port):
        # Forwarded elsewhere (a container's port, say): nothing is bound here, yet somebody answers.
        raise _taken(host, port)


def answers(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    try:
        with socket.create_connection((target, port), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def owner(port: int) -> str | None:
    """Describe the process that listens on a port: pid and command; None where it cannot be seen."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            if connection.pid is None:
                continue
            try:
                words = psutil.Process(connection.pid).cmdline()
            except psutil.Error:
                words = []
            command = shlex.join(words)
            return f"pid {connection.pid} ({command[:160] or 'its command is hidden'})"
    return None


def _taken(host: str, port: int) -> SpecdeckError:
    who = owner(port)
    return SpecdeckError(
        f"port {port} is taken by {who or 'a process of another user or a container'}",
        where=f"{host}:{port}",
        fix="stop that process, or choose another port with --port"
        if who
        else f"find it with `ss -ltnp 'sport = :{port}'` as root, or choose another port with --port",
    )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
