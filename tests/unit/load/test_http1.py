"""HTTP/1.1 framing comes off the same however the network cuts it, and broken framing is told apart from an end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdeck.load.http1 import Unchunker, WireError, is_done, parse_head, tail


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.lists(st.integers(min_value=0)),
    st.sampled_from([b"", b"Trailer: x\r\n"]),
)
def test_chunked_framing_comes_off_the_same_under_any_cut_and_each_byte_stays_in_its_segment(
    bodies: list[bytes], cuts: list[int], trailer: bytes
) -> None:
    framed = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(body), body) for body in bodies) + b"0\r\n" + trailer + b"\r\n"
    parts = _cut(framed, cuts)
    reader = Unchunker()
    payloads = []
    for part in parts:
        assert not reader.over
        payloads.append(reader.feed(part))
    assert reader.over
    assert b"".join(payloads) == b"".join(bodies)
    assert all(len(payload) <= len(part) for payload, part in zip(payloads, parts, strict=True))


@pytest.mark.parametrize(
    "data", [b"zz\r\n", b"\r\n", b"3\r\nabcd\r\n", b"0\r\n\r\nx", b"f" * 17 + b"\r\n", b"1" * 70000]
)
def test_broken_framing_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        Unchunker().feed(data)


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0), max_size=4))
def test_no_bytes_whatever_raise_anything_else(data: bytes, cuts: list[int]) -> None:
    reader = Unchunker()
    try:
        for part in _cut(data, cuts):
            reader.feed(part)
        parse_head(data)
    except WireError:
        pass


def test_a_head_says_how_its_body_ends_and_whether_the_connection_stays() -> None:
    chunked = parse_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: Text/Event-Stream; charset=x")
    assert (chunked.status, chunked.framing, chunked.keeps_alive) == (200, "chunked", True)
    assert chunked.content_type == "text/event-stream"
    sized = parse_head(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 12\r\nConnection: close")
    assert (sized.reason, sized.framing, sized.length, sized.keeps_alive) == (
        "Service Unavailable",
        "length",
        12,
        False,
    )
    until_closed = parse_head(b"HTTP/1.0 200 OK")
    assert (until_closed.framing, until_closed.keeps_alive, until_closed.content_type) == ("close", False, "")


@pytest.mark.parametrize("head", [b"SSH-2.0-x", b"HTTP/1.1 abc", b"HTTP/1.1 200 OK\r\nno colon", b"", b"HTTP/2 2000 x"])
def test_what_is_not_a_response_head_is_an_error(head: bytes) -> None:
    with pytest.raises(WireError):
        parse_head(head)


def test_a_length_that_is_no_number_is_an_error() -> None:
    with pytest.raises(WireError, match="Content-Length"):
        parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: -1")


def test_done_is_a_line_of_its_own_and_never_a_text_that_says_so() -> None:
    assert is_done(b'"}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n')
    assert is_done(b"\r\n\r\ndata:[DONE]\r\n\r\n")
    assert not is_done(b'data: {"content":"data: [DONE]"}\n\n')
    assert tail([b"abc", b"d", b"ef"], 4) == b"cdef"
