"""Streams mean the same however the network cuts them, and time stamps are those of the last byte of each event."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import answer_events, chunk, event, usage

from specdeck.load.stream import Answer, Event, read_answer, split_events

PAYLOADS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1).map(str.encode),
        st.just("data: ü 🦆".encode()),
        st.just(b"[DONE]"),
    ).filter(lambda data: not data.startswith(b" ")),
    max_size=8,
)


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


def _read(parts: list[bytes], step: float = 1.0) -> Answer:
    return read_answer(split_events([step * (i + 1) for i in range(len(parts))], parts))


@given(PAYLOADS, st.lists(st.integers(min_value=0)), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_events_are_the_same_under_any_chunking_line_end_comment_and_keep_alive(
    payloads: list[bytes], cuts: list[int], end: bytes, noise: bool
) -> None:
    extra = b": keep-alive" + end + b"event: x" + end + b"id: 3" + end + end if noise else b""
    frames = [extra + b"data: " + payload + end + end for payload in payloads]
    chunks = _cut(b"".join(frames), cuts)
    events = split_events([float(i) for i in range(len(chunks))], chunks)
    assert [e.data for e in events] == payloads
    assert all(e.complete for e in events)
    ends, total = [], 0
    for part in chunks:
        total += len(part)
        ends.append(total)
    at = 0
    for found, frame in zip(events, frames, strict=True):
        at += len(frame)
        holds_last_byte = next(i for i, total in enumerate(ends) if total >= at)
        assert found.stamp == holds_last_byte


def test_several_data_lines_are_one_event_and_a_byte_order_mark_is_no_field() -> None:
    assert split_events([1.0], [b"\xef\xbb\xbfdata:a\ndata: b\n\n\n\n"]) == [Event(1.0, b"a\nb", True)]


def test_what_the_stream_ends_inside_of_is_marked_incomplete() -> None:
    assert split_events([1.0, 2.0], [b"data: a\n\nda", b"ta: b"]) == [Event(1.0, b"a", True), Event(2.0, b"b", False)]


@given(st.lists(st.integers(min_value=0)))
def test_a_whole_answer_reads_the_same_under_any_chunking(cuts: list[int]) -> None:
    answer = _read(_cut(b"".join(answer_events(speculative=True)), cuts))
    assert answer.error is None
    assert (answer.text, answer.chunk_tokens, answer.completion_tokens) == ("abcdbcdbcdbcd", [1, 3, 3, 3, 3], 13)
    assert answer.spec is not None
    assert (answer.spec.num_spec_steps, answer.spec.acceptance_histogram) == (4, (0, 0, 4, 0))
    assert answer.finish_reason == "length"


def test_role_and_usage_chunks_are_no_tokens_but_an_empty_chunk_that_counts_one_is() -> None:
    answer = _read([chunk("", 0, role="assistant"), chunk("", 1), chunk("ü", 2, "stop"), event({"usage": usage(2)})])
    assert (answer.first_token, answer.first_content, answer.last_token) == (2.0, 3.0, 3.0)
    assert (answer.chunk_stamps, answer.chunk_tokens) == ([2.0, 3.0], [1, 1])


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_the_first_token_may_be_reasoning_and_the_first_content_comes_later(key: str) -> None:
    parts = [
        event({"choices": [{"delta": {key: "Hm"}}], "usage": usage(1)}),
        chunk("So", 2, "stop"),
    ]
    answer = _read(parts)
    assert (answer.first_token, answer.first_content) == (1.0, 2.0)
    assert (answer.reasoning, answer.text) == ("Hm", "So")


def test_the_hash_tells_answers_apart_that_differ_in_reasoning_only() -> None:
    one, two = (Answer(text="", reasoning=thought) for thought in ("a", "b"))
    assert one.sha256 != two.sha256
    assert Answer(text="x").sha256 == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_tool_calls_count_as_content() -> None:
    answer = _read([chunk("", 1, tool_calls=[{"index": 0}]), chunk("", 1, "tool_calls")])
    assert answer.first_content == 1.0
    assert answer.error is None


def test_completions_chunks_carry_text_in_the_choice() -> None:
    answer = _read([event({"choices": [{"text": "ab", "finish_reason": "stop"}], "usage": usage(2)})])
    assert (answer.text, answer.chunk_tokens) == ("ab", [2])


def test_without_continuous_usage_tokens_per_chunk_are_unknown_and_the_total_is_not() -> None:
    parts = [
        event({"choices": [{"delta": {"content": "ab"}}]}),
        event({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ]
    answer = _read([*parts, event({"choices": [], "usage": usage(5)})])
    assert (answer.chunk_tokens, answer.completion_tokens, len(answer.chunk_stamps)) == (None, 5, 1)


def test_cached_tokens_are_read_where_the_server_tells_them() -> None:
    details = {**usage(1), "prompt_tokens_details": {"cached_tokens": 4}}
    assert _read([event({"choices": [{"text": "a", "finish_reason": "stop"}], "usage": details})]).cached_tokens == 4
    assert _read([chunk("a", 1, "stop")]).cached_tokens is None


def test_a_missing_done_mark_is_no_error() -> None:
    assert _read(answer_events(speculative=False)[:-1]).error is None


@pytest.mark.parametrize(
    ("parts", "kind", "says"),
    [
        ([b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'], "server", "out of memory"),
        ([b"data: {broken\n\n"], "protocol", "event 1: invalid JSON"),
        ([b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'], "protocol", "event 1: invalid JSON"),
        ([b"data: [1]\n\n"], "protocol", "not an object but list"),
        ([b'data: {"choices": {}}\n\n'], "protocol", "choices is dict, not list"),
        ([b'data: {"choices": [3]}\n\n'], "protocol", "choices\\[0\\] is not an object"),
        ([event({"usage": {"completion_tokens": -1}})], "protocol", "completion_tokens is -1"),
        ([chunk("a", 3), chunk("b", 2)], "protocol", "fell from 3 to 2"),
        ([event({"metrics": {"speculative_decoding": {"num_spec_steps": 1}}})], "protocol", "speculative_decoding"),
        ([chunk("a", 1)], "stream", "without a finish reason"),
        ([chunk("a", 1), b'data: {"choices": [{"del'], "stream", "middle of an event"),
        ([b": only a comment\n\n"], "protocol", "no event"),
    ],
)
def test_broken_streams_are_classified_and_keep_what_came_before(parts: list[bytes], kind: str, says: str) -> None:
    answer = _read(parts)
    assert answer.error is not None
    assert answer.error.kind == kind
    assert re.search(says, answer.error.message), answer.error.message


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=5))
def test_no_bytes_whatever_raise(data: bytes, cuts: list[int]) -> None:
    _read(_cut(data, cuts) or [b"x"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
        lambda v: (
            st.lists(v, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "usage",
                        "metrics",
                        "error",
                        "content",
                        "finish_reason",
                        "completion_tokens",
                        "speculative_decoding",
                        "prompt_tokens_details",
                        "code",
                        "message",
                    ]
                ),
                v,
                max_size=4,
            )
        ),
    )
)
def test_no_json_of_any_shape_raises(value: object) -> None:
    _read([b"data: " + json.dumps(value).encode() + b"\n\n"])
