"""A taken port is refused by the name of its owner; a picked one stays ours and can still be listened on."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from specdeck.engine import ports
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


def test_a_taken_port_is_refused_by_pid_and_command_of_its_owner(listener: int) -> None:
    with pytest.raises(SpecdeckError) as caught:
        ports.require_free("127.0.0.1", listener)
    assert f"pid {os.getpid()}" in caught.value.what
    assert "pytest" in caught.value.what
    assert caught.value.where == f"127.0.0.1:{listener}"
    assert "--port" in str(caught.value.fix)


def test_a_port_taken_on_another_address_of_the_machine_is_refused_too(listener: int) -> None:
    with pytest.raises(SpecdeckError, match="is taken by"):
        ports.require_free("0.0.0.0", listener)


def test_an_owner_that_cannot_be_seen_is_said_to_be_unseen(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "owner", lambda _port: None)
    with pytest.raises(SpecdeckError, match="another user or a container") as caught:
        ports.require_free("127.0.0.1", listener)
    assert "ss -ltnp" in str(caught.value.fix)


def test_a_port_that_answers_without_being_bound_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "answers", lambda _host, _port: True)
    port = ports.free_port()
    with pytest.raises(SpecdeckError, match="is taken by"):
        ports.require_free("127.0.0.1", port)


def test_a_free_port_passes_and_can_be_listened_on_while_it_is_reserved() -> None:
    port = ports.free_port()
    ports.require_free("127.0.0.1", port)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        assert ports.answers("127.0.0.1", port)
    ports.release(port)
    ports.release(port)


def test_a_reserved_port_is_not_given_out_twice() -> None:
    given = [ports.free_port() for _ in range(50)]
    assert len(set(given)) == 50
    for port in given:
        ports.release(port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 8000)])
def test_what_cannot_be_bound_at_all_is_a_plain_error(host: str, port: int) -> None:
    with pytest.raises(SpecdeckError) as caught:
        ports.require_free(host, port)
    assert caught.value.fix
