"""Counters are summed over engines for one model; absent is None; a restart is told, never clamped."""

from __future__ import annotations

import pytest

from specdeck.errors import SpecdeckError
from specdeck.results.schema import CounterDelta
from specdeck.telemetry.counters import RestartedError, Snapshot, per_position_gap

BEFORE = """\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79607809221e+09
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 33.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="tiny"} 7.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="other"} 1000.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="tiny"} 66.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="tiny"} 14.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="tiny"} 30.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="tiny"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="0"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 10.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="tiny",position="0"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="tiny",position="1"} 0.0
vllm:num_requests_running{engine="0",model_name="tiny"} 1.0
vllm:num_requests_running{engine="1",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 30.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1.2e+06
vllm:generation_tokens_total{engine="0",model_name="tiny"} 37.0
vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.796078170816838e+09
vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 4.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 0.5
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 3.0
vllm:cache_config_info{block_size="640",cache_dtype="auto",enable_prefix_caching="True",engine="0",\
kv_cache_size_tokens="344064",num_cpu_blocks="None",num_gpu_blocks="2184"} 1.0
vllm:cache_config_info{block_size="640",cache_dtype="auto",enable_prefix_caching="True",engine="1",\
kv_cache_size_tokens="344064",num_cpu_blocks="None",num_gpu_blocks="2184"} 1.0
"""

QUERIED = {
    "process_start_time_seconds",
    "vllm:cache_config_info",
    "vllm:generation_tokens_created",
    "vllm:generation_tokens_total",
    "vllm:num_preemptions_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_total",
    "vllm:request_success_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:time_to_first_token_seconds_count",
    "vllm:time_to_first_token_seconds_sum",
}
"""As vLLM 0.32.0 exposes them: a wrong name never fails a run, it only loses a column."""


def _snapshot(text: str = BEFORE) -> Snapshot:
    return Snapshot.parse(text, "tiny")


def _with(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


def _without(name: str) -> str:
    return "\n".join(line for line in BEFORE.split("\n") if not line.startswith(name))


def test_exactly_these_metric_names_are_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    from specdeck.telemetry import exposition  # noqa: PLC0415

    asked: set[str] = set()
    get = exposition.Exposition.get

    def spy(self: exposition.Exposition, name: str) -> list[exposition.Sample]:
        asked.add(name)
        return get(self, name)

    monkeypatch.setattr(exposition.Exposition, "get", spy)
    _snapshot()
    assert asked == QUERIED


def test_every_queried_name_carries_a_value() -> None:
    found = _snapshot()
    empty = [name for name in QUERIED if _snapshot(_without(name)) == found]
    assert empty == []


def test_engines_are_summed_other_models_left_out_and_labels_of_the_cache_read() -> None:
    found = _snapshot()
    assert (found.drafts, found.draft_tokens, found.accepted_tokens, found.accepted_per_pos) == (40, 80, 32, (22, 10))
    assert (found.running, found.waiting, found.requests_success) == (3, 0, 4)
    assert (found.prompt_tokens, found.generation_tokens, found.prefix_cache_queries) == (1_200_000, 37, 30)
    assert found.engines == {"0", "1"}
    assert found.models == {"tiny", "other"}
    assert found.kv_cache is not None
    assert (found.kv_cache.size_tokens, found.kv_cache.num_gpu_blocks, found.kv_cache.block_size) == (688128, 4368, 640)
    assert (found.kv_cache.num_cpu_blocks, found.kv_cache.enable_prefix_caching) == (None, True)


def test_an_alias_of_the_only_served_model_is_understood_and_an_unknown_one_of_several_is_not() -> None:
    only = (
        BEFORE.replace('model_name="other"', 'model_name="tiny"')
        .replace("1000.0\n", "1000.0\n")
        .replace('vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 1000.0\n', "")
    )
    assert Snapshot.parse(only, "alias").model == "tiny"
    assert Snapshot.parse(only, "alias").drafts == 40
    assert Snapshot.parse(BEFORE, "alias").drafts is None


def test_the_difference_of_two_snapshots_is_what_was_counted() -> None:
    after = _with('drafts_total{engine="1",model_name="tiny"} 7.0', 'drafts_total{engine="1",model_name="tiny"} 17.0')
    after = after.replace(
        'engine="1",model_name="tiny",position="1"} 0.0', 'engine="1",model_name="tiny",position="1"} 4.0'
    )
    delta = _snapshot().delta(_snapshot(after))
    assert delta == CounterDelta(
        drafts=10,
        draft_tokens=0,
        accepted_tokens=0,
        accepted_per_pos=(0, 4),
        prompt_tokens=0,
        generation_tokens=0,
        prefix_cache_queries=0,
        prefix_cache_hits=0,
        preemptions=0,
        requests_success=0,
    )
    assert per_position_gap(delta) == -4


def test_a_server_without_a_drafter_has_none_not_zero() -> None:
    plain = _snapshot(_without("vllm:spec_decode"))
    delta = plain.delta(plain)
    assert (delta.drafts, delta.accepted_per_pos, delta.prompt_tokens) == (None, None, 0)
    assert per_position_gap(delta) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('drafts_total{engine="0",model_name="tiny"} 33.0', 'drafts_total{engine="0",model_name="tiny"} 3.0', "fell"),
        ('position="0"} 20.0', 'position="0"} 19.0', "per_pos_total fell"),
        ("1.79607809221e+09", "1.79607909221e+09", "started anew"),
        ("1.796078170816838e+09", "1.796079170816838e+09", "made anew"),
        ('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 10.0\n', "",
         "from 22 to|fell|positions"),
    ],
)  # fmt: skip
def test_a_restart_is_told_and_never_clamped(old: str, new: str, says: str) -> None:
    with pytest.raises(RestartedError, match=says):
        _snapshot().delta(_snapshot(_with(old, new)))


def test_a_series_that_first_appears_counts_from_zero_only_in_the_same_process() -> None:
    before, after = _snapshot(_without("vllm:spec_decode")), _snapshot()
    assert before.delta(after).drafts == 40
    assert before.delta(after).accepted_per_pos == (22, 10)
    unknown = [_snapshot(text.replace("process_start_time_seconds 1", "other 1")) for text in
               (_without("vllm:spec_decode"), BEFORE)]  # fmt: skip
    assert unknown[0].delta(unknown[1]).drafts is None
    assert unknown[0].delta(unknown[1]).accepted_per_pos is None
    assert after.delta(before).drafts is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('tiny"} 37.0', 'tiny"} NaN', "nan is no count"),
        ('tiny"} 37.0', 'tiny"} 37.5', "37.5 is no count"),
        ('tiny"} 37.0', 'tiny"} -1', "no count"),
        ('position="1"} 10.0', 'position="x"} 10.0', "position is 'x'"),
        ('position="1"', 'position="2"', "positions are"),
        ('drafts_total{engine="1",', 'drafts_total{engine="0",', "stands twice"),
    ],
)
def test_metrics_that_cannot_be_right_are_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecdeckError, match=says):
        _snapshot(_with(old, new))
