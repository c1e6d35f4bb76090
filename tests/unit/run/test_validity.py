"""Every way the witnesses of a cell can disagree has its finding, and a sound cell has none."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from specdeck.results.schema import CounterDelta, RequestError, RequestRecord, Sampling, SpecPayload
from specdeck.run.validity import Facts, check, median_gap_ms
from specdeck.telemetry.counters import Snapshot

PAYLOAD = SpecPayload(
    num_spec_steps=10,
    num_accepted_draft_tokens=12,
    num_draft_tokens=30,
    num_spec_tokens=3,
    acceptance_histogram=(3, 4, 1, 2),
)
RECORD = RequestRecord(
    request_id="r",
    index=0,
    prompt_id="math-01",
    category="math",
    scheduled_s=0.0,
    sent_s=0.0,
    end_s=1.0,
    prompt_tokens=20,
    completion_tokens=22,
    chunk_s=(0.1, 0.15, 0.2, 0.3),
    chunk_tokens=(1, 7, 7, 7),
    finish_reason="length",
    spec=PAYLOAD,
)
DELTA = CounterDelta(
    drafts=20,
    draft_tokens=60,
    accepted_tokens=24,
    accepted_per_pos=(14, 6, 4),
    prompt_tokens=40,
    generation_tokens=44,
    prefix_cache_queries=40,
    prefix_cache_hits=0,
    preemptions=0,
    requests_success=2,
)
SNAPSHOT = dataclasses.replace(
    Snapshot.parse('vllm:num_requests_running{engine="0",model_name="tiny"} 0\n', "tiny"),
    requests_success=0,
    prompt_tokens=0,
    generation_tokens=0,
)
SOUND = Facts(
    method="mtp",
    num_speculative_tokens=3,
    sampling=Sampling(temperature=0.0, max_tokens=22),
    records=[RECORD, RECORD],
    before=SNAPSHOT,
    after=SNAPSHOT,
    delta=DELTA,
    restarted=None,
    cache_method="salt",
    loop_lag_p99_ms=1.0,
    client_cores=0.1,
)


def _found(**changes: Any) -> dict[str, tuple[str, str]]:
    return {f.code: (f.severity, f.message) for f in check(dataclasses.replace(SOUND, **changes))}


def _delta(**changes: Any) -> CounterDelta:
    return msgspec.structs.replace(DELTA, **changes)


def _records(**changes: Any) -> list[RequestRecord]:
    return [RECORD, msgspec.structs.replace(RECORD, **changes)]


def test_a_cell_whose_witnesses_agree_has_no_finding() -> None:
    assert _found() == {}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("requests_success", 3, "finished requests 3 against 2"),
        ("prompt_tokens", 47, "prompt tokens 47 against 40"),
        ("generation_tokens", 45, "generated tokens 45 against 44"),
        ("drafts", 21, "drafts 21 against 20"),
        ("draft_tokens", 63, "draft tokens 63 against 60"),
        ("accepted_per_pos", (15, 5, 4), "position 0 15 against 14; tokens accepted at position 1 5 against 6"),
    ],
)
def test_a_counter_that_differs_from_our_requests_is_contamination(field: str, value: object, says: str) -> None:
    found = _found(delta=_delta(**{field: value}))
    assert set(found) == {"contaminated"}
    severity, message = found["contaminated"]
    assert severity == "invalid"
    assert says in message


def test_without_payloads_the_other_witnesses_still_speak() -> None:
    records = _records(spec=None)
    assert _found(records=records, delta=_delta(drafts=19)) == {}
    assert "contaminated" in _found(records=records, delta=_delta(prompt_tokens=41))
    assert "each draft yields at least one" in _found(records=records, delta=_delta(drafts=45))["contaminated"][1]


def test_a_summary_payload_without_a_histogram_is_compared_as_far_as_it_goes() -> None:
    bare = [msgspec.structs.replace(RECORD, spec=msgspec.structs.replace(PAYLOAD, acceptance_histogram=()))] * 2
    assert _found(records=bare) == {}
    assert "drafts 21 against 20" in _found(records=bare, delta=_delta(drafts=21))["contaminated"][1]


def test_series_the_server_lacks_are_not_compared() -> None:
    assert _found(delta=CounterDelta()) == {"no_draft_counters": _found(delta=CounterDelta())["no_draft_counters"]}
    assert _found(delta=CounterDelta())["no_draft_counters"][0] == "warning"
    assert _found(delta=CounterDelta(), method=None) == {}


def test_counters_that_a_server_no_longer_has_under_their_name_are_told_and_never_taken_for_zero() -> None:
    renamed = dataclasses.replace(SNAPSHOT, requests_success=None, generation_tokens=None)
    found = _found(before=renamed, after=renamed, delta=_delta(requests_success=None, generation_tokens=None))
    assert set(found) == {"witness_missing"}
    assert "vllm:request_success_total, vllm:generation_tokens_total" in found["witness_missing"][1]


def test_a_payload_that_contradicts_itself_makes_the_cell_invalid() -> None:
    wrong = msgspec.structs.replace(PAYLOAD, num_spec_tokens=5)
    found = _found(records=_records(spec=wrong))
    assert found["payload_contradicts"][0] == "invalid"
    assert "1 of 2 answers' own acceptance contradicts itself" in found["payload_contradicts"][1]


def test_failed_requests_make_the_cell_invalid_and_stop_the_comparison() -> None:
    error = RequestError(kind="http", message="500 oops", status=500)
    found = _found(records=_records(error=error), delta=_delta(generation_tokens=30))
    assert set(found) == {"request_errors"}
    assert found["request_errors"] == ("invalid", "1 of 2 requests failed (1 http); the first, math-01: 500 oops")


def test_accepted_tokens_that_do_not_sum_over_positions_are_told() -> None:
    found = _found(delta=_delta(accepted_tokens=25), records=_records(spec=None))
    assert found["per_position_sum"][0] == "invalid"
    assert "24 accepted tokens by position against 25 in all" in found["per_position_sum"][1]


def test_an_arm_must_draft_as_it_claims() -> None:
    bare = _records(spec=None)
    nothing = _delta(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_pos=(0, 0, 0))
    assert _found(delta=nothing, records=bare)["no_drafts"][0] == "invalid"
    assert _found(method=None)["unexpected_drafts"][0] == "invalid"
    assert _found(method=None, delta=nothing, records=bare) == {}
    assert _found(num_speculative_tokens=7)["draft_length"][0] == "invalid"


def test_a_restart_and_a_changed_server_are_invalid() -> None:
    assert _found(restarted="a counter fell", delta=CounterDelta())["restarted"][0] == "invalid"
    other = Snapshot.parse('vllm:num_requests_running{engine="1",model_name="big"} 0\n', "big")
    found = _found(after=other)
    assert found["model_changed"] == ("invalid", "served models went from tiny to big")
    assert found["engines_changed"][0] == "invalid"


def test_cache_hits_are_told_only_where_none_should_be() -> None:
    hits = _delta(prefix_cache_hits=16)
    assert "16 of 40 prompt tokens" in _found(delta=hits)["cache_hits"][1]
    assert _found(delta=hits, cache_method=None) == {}
    assert _found(delta=_delta(preemptions=2))["preempted"][0] == "warning"


def test_a_late_client_is_measured_against_the_streams_own_pace() -> None:
    assert median_gap_ms([RECORD]) == pytest.approx(50)
    assert median_gap_ms([]) is None
    assert _found(loop_lag_p99_ms=24.0) == {}
    found = _found(loop_lag_p99_ms=26.0, host_cpu_percent=99.6)
    assert found["client_limited"][0] == "warning"
    assert "26.0 ms late" in found["client_limited"][1]
    assert "100 % busy" in found["client_limited"][1]
    assert "0.95 of one core" in _found(client_cores=0.95)["client_limited"][1]


def test_answers_without_counts_or_with_too_few_tokens_are_told() -> None:
    assert _found(records=_records(completion_tokens=None))["no_usage"][0] == "invalid"
    assert _found(records=_records(chunk_tokens=(1, 7)))["usage_disagrees"][0] == "warning"
    short = [msgspec.structs.replace(RECORD, completion_tokens=5, chunk_tokens=None, spec=None)] * 2
    assert "short_output" in _found(records=short, delta=CounterDelta(), method=None)
    tight = Sampling(temperature=0.0, max_tokens=5)
    assert _found(records=short, delta=CounterDelta(), method=None, sampling=tight) == {}
    forced = Sampling(temperature=0.0, max_tokens=30, ignore_eos=True)
    assert "2 of 2 answers ended early" in _found(sampling=forced)["short_output"][1]


def test_an_open_loop_that_sent_less_than_it_was_asked_to_says_so_and_one_that_delivered_does_not() -> None:
    open_loop = dataclasses.replace(SOUND, request_rate=10.0, sent_rate=8.0, queue_p99_ms=900.0)
    (finding,) = check(open_loop)
    assert (finding.code, finding.severity) == ("load_not_delivered", "warning")
    assert "900 ms" in finding.message
    assert check(dataclasses.replace(open_loop, sent_rate=9.8)) == []


def test_clocks_held_down_by_heat_or_hardware_are_told_and_a_power_cap_or_a_moment_of_it_is_not() -> None:
    calm = {"thermal_throttled_share": 0.05, "hardware_slowed_share": None, "power_capped_share": 1.0}
    assert _found(gpus=[calm]) == {}
    hot = {"thermal_throttled_share": 0.5, "hardware_slowed_share": 0.0, "power_capped_share": 0.0}
    assert _found(gpus=[calm, hot])["throttled"] == (
        "warning", "GPU 1 had its clocks held down by heat in 50 % of the samples",
    )  # fmt: skip
    braked = {"thermal_throttled_share": None, "hardware_slowed_share": 1.0}
    assert "brake of the hardware" in _found(gpus=[braked])["throttled"][1]


def test_a_client_at_its_limit_and_a_clock_that_disagrees_are_told_beside_the_cell() -> None:
    assert _found(client_chunks_per_s=100.0, duration_s=1.0) == {}
    assert "it may have been the limit" in _found(client_chunks_per_s=10.0, duration_s=1.0)["client_limited"][1]
    assert _found(ttft_mean_ms=900.0, server_ttft_mean_ms=500.0)["ttft_differs"][0] == "warning"


def test_acceptance_on_random_text_and_hits_of_a_prefix_that_is_meant_to_be_shared() -> None:
    assert set(_found(workload="random")) == {"random_text"}
    assert _found(workload="random", method=None, delta=CounterDelta()) == {}
    hits = _delta(prefix_cache_hits=16, prefix_cache_queries=40)
    assert set(_found(delta=hits, workload="long_context")) == {"cache_hits"}
    assert _found(delta=hits, workload="shared_prefix") == {}
