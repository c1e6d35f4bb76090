"""The server's histogram and the client's capacity are held against what the client says, and only where comparable."""

from __future__ import annotations

import msgspec
import pytest

from specdeck.results.schema import RequestError, RequestRecord
from specdeck.run.witnesses import mean_ttft_ms, near_capacity, server_mean_ttft_ms, ttft_gap, undelivered_concurrency
from specdeck.telemetry.counters import Snapshot

RECORD = RequestRecord(
    request_id="r", index=0, prompt_id="p", category="c", scheduled_s=0.0, sent_s=0.5, first_token_s=0.75, end_s=2.0,
    chunk_s=(0.75, 1.0),
)  # fmt: skip


def _snapshot(count: int, total: float) -> Snapshot:
    name = "vllm:time_to_first_token_seconds"
    label = '{engine="0",model_name="tiny"}'
    return Snapshot.parse(
        f"vllm:num_requests_running{label} 0\n{name}_count{label} {count}\n{name}_sum{label} {total}\n", "tiny"
    )


def test_both_means_are_over_the_same_requests_or_there_is_none() -> None:
    assert mean_ttft_ms([RECORD, msgspec.structs.replace(RECORD, first_token_s=1.25)]) == 500.0
    failed = msgspec.structs.replace(RECORD, error=RequestError(kind="timeout", message="late"))
    assert mean_ttft_ms([RECORD, failed]) is None
    assert mean_ttft_ms([]) is None
    before, after = _snapshot(3, 1.0), _snapshot(5, 1.5)
    assert server_mean_ttft_ms(before, after, 2) == 250.0
    assert server_mean_ttft_ms(before, after, 1) is None
    bare = Snapshot.parse('vllm:num_requests_running{engine="0",model_name="tiny"} 0\n', "tiny")
    assert server_mean_ttft_ms(bare, bare, 2) is None
    assert server_mean_ttft_ms(None, after, 2) is None


@pytest.mark.parametrize(
    ("ours", "servers"), [(150.0, 100.0), (1250.0, 1000.0), (60.0, 100.0), (None, 1.0), (1.0, None)]
)
def test_a_way_there_and_back_is_no_disagreement(ours: float | None, servers: float | None) -> None:
    assert ttft_gap(ours, servers) is None


def test_a_disagreement_says_by_how_much_and_on_whose_side() -> None:
    assert "after 151 ms here and after 100 ms" in (ttft_gap(151.0, 100.0) or "")
    assert "51 ms went by on the way" in (ttft_gap(151.0, 100.0) or "")
    assert "the server counts what is not in our requests" in (ttft_gap(40.0, 100.0) or "")


def test_a_load_near_what_the_client_reached_alone_is_told_and_one_far_below_is_not() -> None:
    assert near_capacity([RECORD] * 36, 1.0, 100.0)
    assert near_capacity([RECORD] * 35, 1.0, 100.0) is None
    assert near_capacity([RECORD], 1.0, None) is None
    assert near_capacity([], 0.0, 100.0) is None


def _slots(slots: int, each: int, pause_s: float) -> list[RequestRecord]:
    """Requests of 1 s, `each` a slot, the next one sent `pause_s` after the last one's end."""
    starts = [number * (1 + pause_s) for number in range(each)]
    return [msgspec.structs.replace(RECORD, sent_s=start, end_s=start + 1) for start in starts] * slots


def test_a_closed_loop_that_held_fewer_in_flight_than_asked_for_is_told_with_how_many() -> None:
    told = undelivered_concurrency(_slots(4, 5, pause_s=1.0), 4)
    assert told is not None
    assert "4 requests in flight were asked for, 2 were" in told
    assert undelivered_concurrency(_slots(4, 5, pause_s=0.05), 4) is None


def test_the_tail_and_loads_too_short_to_tell_are_no_missing_concurrency() -> None:
    tail = [*_slots(4, 5, 0.0), msgspec.structs.replace(RECORD, sent_s=4.0, end_s=500.0)]
    assert undelivered_concurrency(tail, 4) is None
    assert undelivered_concurrency(_slots(4, 1, 0.0), 4) is None
    assert undelivered_concurrency(_slots(1, 5, 9.0), None) is None
    unsent = msgspec.structs.replace(RECORD, sent_s=None)
    assert undelivered_concurrency([*_slots(4, 5, 1.0), unsent], 4) is None
