"""Against a server that knows the truth, every token-true figure is within 1 % of it, whatever the stream looks like.

Once with the server's due times for arrival times, where nothing else runs and every quantile must be right; once over
sockets, where a busy host may delay a stamp: there the figures may be off by what the stamps are late, and no more.
"""

from __future__ import annotations

import asyncio
import http.client
from typing import TYPE_CHECKING

import pytest
import uvloop
from support import truth

from specdeck.load.client import Target
from specdeck.load.exchange import Exchange
from specdeck.load.loop import LoadOutcome, run_load
from specdeck.load.loopback.process import Loopback, running_loopback
from specdeck.load.loopback.server import Truth
from specdeck.load.loopback.shape import Shape, chunk_tokens, render
from specdeck.load.prompts import Prompt
from specdeck.load.record import make_record
from specdeck.results.schema import RequestRecord, Sampling
from specdeck.stats.observations import time_per_output_token
from specdeck.stats.tokens import all_token_gaps, peak_tokens_per_s, token_gaps
from specdeck.telemetry.counters import Snapshot
from specdeck.telemetry.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STREAMS, CHUNKS = 8, 130
SHAPES = {
    "1": Shape(tokens="1"),
    "2": Shape(tokens="2"),
    "4": Shape(tokens="4"),
    "8": Shape(tokens="8"),
    "1-to-8": Shape(tokens="1-8-3-5-2-7-4-6"),
    "reasoning-and-tools": Shape(tokens="1-4", reasoning=40, tool_calls=30),
    "empty-deltas": Shape(tokens="3-1", empty_every=3),
    "cut-in-a-character": Shape(tokens="4-2", cut=198),
    "cut-in-the-framing": Shape(tokens="4", cut=1),
    "joined": Shape(tokens="1-8-3", join=3),
    "crlf-comments-no-done": Shape(tokens="2-5", line_end="crlf", comments=True, done=False),
}


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with running_loopback() as running:
        yield running


def _load(loopback: Loopback, shape: Shape, endpoint: str, tokens: int) -> tuple[LoadOutcome, list[Truth]]:
    prompts = [Prompt(id=f"p-{i}", category="c", prompt="x") for i in range(STREAMS)]
    target = Target(loopback.url(shape), "loopback", "chat" if endpoint == "chat" else "completions")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(
            run_load(
                target,
                prompts,
                concurrency=STREAMS,
                sampling=Sampling(temperature=0, max_tokens=tokens),
                request_timeout_s=30,
            )
        )
    told = loopback.truths()
    assert [record.error for record in outcome.records] == [None] * STREAMS
    return outcome, [told[record.request_id] for record in outcome.records]


def _budget(shape: Shape) -> int:
    return sum(chunk_tokens(shape, 10_000)[:CHUNKS])


def _on_time(shape: Shape, *, chat: bool) -> tuple[list[RequestRecord], list[Truth]]:
    """What the client makes of streams that arrive when they are due, and the truth about them."""
    records, told = [], []
    for number in range(STREAMS):
        pieces, begun = render(shape, _budget(shape), chat=chat), 0.0013 * number
        exchange = Exchange(f"r-{number}", number, begun, sent=begun, chunked=True)
        sent: list[float] = []
        for piece in pieces:
            exchange.stamps.append(begun + piece.due_s)
            exchange.chunks.append(piece.data)
            sent += [begun + piece.due_s] * len(piece.tokens)
        exchange.end = exchange.stamps[-1]
        records.append(make_record(exchange, Prompt(id=f"p-{number}", category="c", prompt="x"), 0.0))
        told.append(Truth(f"r-{number}", begun, tuple(sent), sum((p.tokens for p in pieces), ()), complete=True))
    return records, told


def _figures(records: Sequence[RequestRecord], duration_s: float) -> truth.Figures:
    return {
        "itl": all_token_gaps(records).tolist(),
        "tpot": [time_per_output_token(record) or 0.0 for record in records],
        "inter_chunk": truth.gaps(record.chunk_s for record in records),
        "peak": [peak_tokens_per_s(records) or 0.0],
        "mean": [sum(record.completion_tokens or 0 for record in records) / duration_s],
    }


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("name", SHAPES)
def test_mean_median_and_p99_of_itl_tpot_inter_chunk_and_the_rates_are_the_truth(name: str, endpoint: str) -> None:
    records, told = _on_time(SHAPES[name], chat=endpoint == "chat")
    assert [record.chunk_tokens for record in records] == [true.tokens for true in told]
    found = _figures(records, max(record.end_s for record in records))
    assert truth.differences(found, truth.figures(told), tolerance=0.01) == []


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("name", ["1-to-8", "reasoning-and-tools", "cut-in-a-character", "crlf-comments-no-done"])
def test_over_sockets_figures_are_off_by_no_more_than_stamps_are_late(
    loopback: Loopback, name: str, endpoint: str
) -> None:
    shape = SHAPES[name]
    outcome, told = _load(loopback, shape, endpoint, _budget(shape))
    assert [record.chunk_tokens for record in outcome.records] == [true.tokens for true in told]
    late = [
        outcome.start + arrived - sent
        for record, true in zip(outcome.records, told, strict=True)
        for arrived, sent in zip(record.chunk_s, true.sent, strict=True)
    ]
    assert min(late) > -1e-6, "a chunk was stamped before it was sent"
    span = min(true.sent[-1] - true.sent[0] for true in told)
    tolerance = 0.01 + (max(late) - min(late)) / span
    found, true_figures = _figures(outcome.records, outcome.duration_s), truth.figures(told)
    for figure in ("tpot", "inter_chunk", "itl"):
        ours, truly = (sum(figures[figure]) / len(figures[figure]) for figures in (found, true_figures))
        assert ours == pytest.approx(truly, rel=tolerance), figure


def test_a_reader_that_counts_chunks_would_be_four_times_off_so_the_shapes_tell_definitions_apart() -> None:
    _, told = _on_time(SHAPES["4"], chat=True)
    figures = truth.figures(told)
    chunk, token = (sum(figures[name]) / len(figures[name]) for name in ("inter_chunk", "itl"))
    assert chunk == pytest.approx(4 * token)


def test_without_continuous_usage_tpot_is_true_and_what_needs_tokens_a_chunk_is_absent() -> None:
    records, told = _on_time(Shape(tokens="4", usage="final"), chat=True)
    assert all(token_gaps(record) is None for record in records)
    assert all_token_gaps(records).size == 0
    assert peak_tokens_per_s(records) is None
    tpot = [time_per_output_token(record) or 0.0 for record in records]
    assert truth.differences({"tpot": tpot}, truth.figures(told)) == []


def test_a_shape_survives_its_path_and_one_of_them_cuts_inside_a_character() -> None:
    for shape in (*SHAPES.values(), Shape()):
        assert Shape.from_path(shape.path) == shape
    pieces = render(SHAPES["cut-in-a-character"], 11, chat=True)
    assert [count for piece in pieces for count in piece.tokens] == [4, 2, 4, 1]
    assert any("\ufffd" in piece.data.decode("utf-8", "replace") for piece in pieces)


def test_the_loopback_servers_counters_are_what_its_answers_add_up_to(loopback: Loopback) -> None:
    def read() -> tuple[Snapshot, float, float]:
        connection = http.client.HTTPConnection("127.0.0.1", loopback.port, timeout=30)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found = parse(text)
        name = "vllm:time_to_first_token_seconds"
        assert found.get(f"{name}_bucket")[-1].value == found.get(f"{name}_count")[0].value
        return Snapshot.parse(text, "loopback"), found.get(f"{name}_count")[0].value, found.get(f"{name}_sum")[0].value

    before, count, total = read()
    outcome, told = _load(loopback, Shape(tokens="4"), "chat", 40)
    after, more, longer = read()
    delta = before.delta(after)
    assert (delta.requests_success, delta.generation_tokens) == (STREAMS, 40 * STREAMS)
    assert delta.prompt_tokens == sum(record.prompt_tokens or 0 for record in outcome.records)
    assert after.running == after.waiting == 0
    assert more - count == STREAMS
    assert longer - total == pytest.approx(sum(true.sent[0] - true.received for true in told))
