"""Acceptance, throughput, latency and text equality on inputs small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pytest
from support.runs import cell, payload, record, whole_run

from specdeck.results.schema import CounterDelta, SpecPayload
from specdeck.stats.acceptance import (
    acceptance,
    acceptance_length,
    length_from_payloads,
    pool,
    positions,
    positions_agree,
    positions_from_counters,
)
from specdeck.stats.columns import columns
from specdeck.stats.equality import equal_text, first_difference
from specdeck.stats.latency import quantiles, rates
from specdeck.stats.observations import observe, time_per_output_token
from specdeck.stats.throughput import output_tok_s, paired_ratio, request_tok_s

COUNTERS = CounterDelta(drafts=10, draft_tokens=30, accepted_tokens=18, accepted_per_pos=(8, 6, 4))


def test_acceptance_length_counts_the_bonus_token() -> None:
    assert acceptance_length(18, 10) == pytest.approx(2.8)
    assert acceptance_length(0, 10) == 1.0


def test_acceptance_length_is_absent_without_drafts_not_one() -> None:
    assert acceptance_length(0, 0) is None
    assert acceptance_length(None, None) is None
    assert positions_from_counters(CounterDelta(drafts=0, accepted_per_pos=(0, 0))) is None


def test_position_rates_sum_to_acceptance_length_minus_one() -> None:
    rates_ = positions_from_counters(COUNTERS)
    assert rates_ == (0.8, 0.6, 0.4)
    assert sum(rates_) == pytest.approx(1.8)
    assert positions_agree(COUNTERS) is True
    assert positions_agree(CounterDelta(drafts=10, accepted_tokens=18, accepted_per_pos=(8, 6, 3))) is False
    assert positions_agree(CounterDelta()) is None


def test_pooling_adds_counters_and_one_missing_series_makes_the_sum_missing() -> None:
    both = pool([COUNTERS, CounterDelta(drafts=1, draft_tokens=3, accepted_tokens=1, accepted_per_pos=(1, 0, 0))])
    assert (both.drafts, both.draft_tokens, both.accepted_tokens) == (11, 33, 19)
    assert both.accepted_per_pos == (9, 6, 4)
    missing = pool([COUNTERS, CounterDelta(drafts=1)])
    assert missing.drafts == 11
    assert missing.accepted_tokens is None
    assert missing.accepted_per_pos is None
    assert pool([COUNTERS, CounterDelta(accepted_per_pos=(1, 0))]).accepted_per_pos is None
    assert pool([]) == CounterDelta()


def test_payload_acceptance_is_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    records = [
        record("a", index=0, spec=payload(3, n=3)),
        record("b", index=1, spec=payload(0, 0, 0, n=3)),
        record("c", index=2, spec=None),
    ]
    seen = observe([(cell("mtp"), records)])
    assert length_from_payloads(seen).value == pytest.approx(1 + 3 / 4)
    both = acceptance(CounterDelta(), seen)
    assert both.length.value == pytest.approx(1.75)
    assert both.length_from_counters is None
    assert both.draft_acceptance_rate == pytest.approx(3 / 12)
    assert both.requests_with_payload == 2
    assert [p.rate.value for p in positions(CounterDelta(), seen)] == [0.25, 0.25, 0.25]


def test_counters_lead_and_payloads_are_kept_beside_them() -> None:
    seen = observe([(cell("mtp"), [record(spec=payload(2, 1, n=3))])])
    both = acceptance(COUNTERS, seen)
    assert both.length.value == both.length_from_counters == pytest.approx(2.8)
    assert both.length_from_payloads == pytest.approx(2.5)
    assert both.draft_acceptance_rate == pytest.approx(0.6)


def test_zero_drafted_tokens_do_not_borrow_the_payloads_rate() -> None:
    seen = observe([(cell("mtp"), [record(spec=payload(2, 1, n=3))])])
    assert acceptance(CounterDelta(drafts=0, draft_tokens=0, accepted_tokens=0), seen).draft_acceptance_rate is None


def test_a_histogram_that_does_not_count_every_step_is_not_used_for_positions() -> None:
    broken = SpecPayload(
        num_spec_steps=5, num_accepted_draft_tokens=4, num_draft_tokens=10, acceptance_histogram=(1, 1, 1)
    )
    seen = observe([(cell("mtp"), [record(spec=broken)])])
    assert positions(CounterDelta(), seen) == ()
    assert length_from_payloads(seen).value == pytest.approx(1.8)


def test_intervals_of_acceptance_need_payloads() -> None:
    run, cells = whole_run(payloads=False)
    seen = observe([item for item in cells if item[0].arm == "mtp"])
    assert acceptance(COUNTERS, seen).length.interval is None
    assert all(p.rate.interval is None for p in positions(COUNTERS, seen))
    assert run.arms["mtp"].num_speculative_tokens == 3


def test_position_intervals_contain_their_rates_when_payloads_agree_with_counters() -> None:
    _, cells = whole_run()
    ours = [item for item in cells if item[0].arm == "dflash2"]
    found = positions(pool([c.counters for c, _ in ours]), observe(ours))
    assert [p.position for p in found] == [1, 2, 3, 4, 5, 6, 7]
    for position in found:
        interval, value = position.rate.interval, position.rate.value
        assert interval is not None
        assert value is not None
        assert interval.lo <= value <= interval.hi
        assert interval.prompts == 12


def test_output_throughput_pools_sums_over_rounds_and_shows_the_rounds() -> None:
    one, two = [record(tokens=100)], [record(tokens=100), record("b", index=1, tokens=200)]
    found = output_tok_s([(cell(duration=10), one), (cell(round_=2, duration=20), two)])
    assert found.value == pytest.approx(400 / 30)
    assert found.spread is not None
    assert (found.spread.min, found.spread.max, found.spread.rounds) == (10.0, 15.0, 2)
    assert found.interval is None


def test_an_answer_without_usage_makes_throughput_unknown_not_smaller() -> None:
    records = [record(tokens=100), record("b", index=1, tokens=None)]
    assert output_tok_s([(cell(), records)]).value is None
    assert output_tok_s([(cell(duration=0.0), [record()])]).value is None
    assert output_tok_s([]).value is None


def test_failed_requests_add_neither_tokens_nor_latency() -> None:
    records = [record(tokens=100), record("b", index=1, tokens=999, first=9.0, failed=True)]
    measured = [(cell(duration=10), records)]
    assert output_tok_s(measured).value == 10.0
    seen = observe(measured)
    assert len(seen) == 1
    assert quantiles(seen.ttft_s).p99 == 0.5


def test_the_ratio_to_the_baseline_is_exact_when_every_prompt_is_equally_faster() -> None:
    base = [record(f"p{i}", index=i, tokens=10 + i, end=float(10 + i)) for i in range(8)]
    fast = [record(f"p{i}", index=i, tokens=10 + i, end=(10 + i) / 2) for i in range(8)]
    found = paired_ratio([(cell("mtp", duration=50), fast)], [(cell(duration=100), base)])
    assert found.ratio.value == 2.0
    assert found.ratio.interval is not None
    assert (found.ratio.interval.lo, found.ratio.interval.hi) == pytest.approx((2.0, 2.0))
    assert (found.paired, found.unpaired, found.rounds) == (8, 0, (1,))


def test_pairing_removes_what_prompts_have_in_common() -> None:
    """Prompts differ a hundredfold in speed, arms by exactly 1.5: unpaired intervals are wide, the ratio's is not."""
    ends = [float(2**i) for i in range(8)]
    base = [record(f"p{i}", index=i, tokens=10, end=1.5 * e) for i, e in enumerate(ends)]
    fast = [record(f"p{i}", index=i, tokens=10, end=e) for i, e in enumerate(ends)]
    arm = [(cell("mtp", duration=sum(ends)), fast)]
    found = paired_ratio(arm, [(cell(duration=1.5 * sum(ends)), base)]).ratio
    alone = output_tok_s(arm)
    assert found.interval is not None
    assert alone.interval is not None
    assert alone.value is not None
    assert found.interval.hi - found.interval.lo < 1e-9
    assert alone.interval.hi - alone.interval.lo > 0.5 * alone.value


def test_prompts_answered_in_one_arm_only_do_not_enter_the_interval() -> None:
    base = [record(f"p{i}", index=i) for i in range(8)]
    ours = [record(f"p{i}", index=i, failed=i == 0) for i in range(8)]
    found = paired_ratio([(cell("mtp"), ours)], [(cell(), base)])
    assert found.ratio.interval is not None
    assert found.ratio.interval.prompts == 7
    assert (found.paired, found.unpaired) == (7, 1)


def test_the_ratio_uses_only_rounds_that_both_arms_have() -> None:
    records = [record(f"p{i}", index=i, tokens=10) for i in range(8)]
    arm = [(cell("mtp", duration=5), records), (cell("mtp", round_=2, duration=500), records)]
    base = [(cell(duration=10), records), (cell(round_=3, duration=10), records)]
    found = paired_ratio(arm, base)
    assert found.rounds == (1,)
    assert found.ratio.value == 2.0
    assert paired_ratio(arm[1:], base).ratio.value is None


def test_a_prompt_measured_twice_in_a_cell_pairs_first_with_first() -> None:
    twice = [record("p", index=0), record("p", index=1)]
    assert observe([(cell(), list(reversed(twice)))]).keys == ((1, 1, "p", 0), (1, 1, "p", 1))


def test_request_throughput_divides_tokens_by_the_requests_own_time() -> None:
    records = [record(tokens=10, end=1.0), record("b", index=1, tokens=20, scheduled=1.0, end=3.0)]
    assert request_tok_s(observe([(cell(), records)])) == 10.0
    assert request_tok_s(observe([])) is None


def test_time_per_output_token_leaves_the_first_token_out() -> None:
    assert time_per_output_token(record(first=1.0, last=3.0, tokens=5)) == 0.5
    assert time_per_output_token(record(tokens=1)) is None
    assert time_per_output_token(record(tokens=None)) is None
    assert time_per_output_token(record(first=None)) is None


def test_time_to_first_token_counts_from_the_schedule() -> None:
    late = record(scheduled=1.0, first=4.0, end=6.0)
    seen = observe([(cell(), [late])])
    assert seen.ttft_s.tolist() == [3.0]
    assert seen.e2e_s.tolist() == [5.0]


def test_inter_chunk_gaps_stay_inside_a_request() -> None:
    records = [record(chunks=(0.5, 0.6, 0.8)), record("b", index=1, chunks=(9.0, 9.5)), record("c", index=2)]
    assert columns(cell(), records).gaps_s.tolist() == pytest.approx([0.1, 0.2, 0.5])


def test_percentiles_interpolate_linearly_between_ranks() -> None:
    found = quantiles(np.array([4.0, 1.0, 2.0, 3.0]))
    assert found.p50 == 2.5
    assert found.p99 == pytest.approx(3.97)
    assert found.p99_near_max is True
    assert found.p50_interval is None
    assert quantiles(np.arange(100.0)).p99_near_max is False


def test_missing_times_are_left_out_and_nothing_gives_nothing() -> None:
    found = quantiles(np.array([np.nan, 2.0]), np.array([0, 1]))
    assert (found.n, found.p50) == (1, 2.0)
    empty = quantiles(np.array([np.nan]), np.array([0]))
    assert (empty.n, empty.p50, empty.p99) == (0, None, None)


def test_decode_rate_is_the_inverse_of_time_per_token() -> None:
    found = rates(np.array([0.5, np.nan, 0.0]))
    assert found[0] == 2.0
    assert np.isnan(found[1:]).all()


def test_equal_text_pairs_by_prompt_round_and_concurrency() -> None:
    base = [(cell(), [record("a", text="abc"), record("b", index=1, text="abc")])]
    ours = [
        (cell("mtp"), [record("a", text="abc"), record("b", index=1, text="abX"), record("c", index=2)]),
        (cell("mtp", round_=2), [record("a", text="zzz")]),
    ]
    found = equal_text("mtp", ours, base)
    assert (found.compared, found.equal, found.share) == (2, 1, 0.5)
    assert [(d.prompt_id, d.concurrency, d.round, d.first_difference) for d in found.differences] == [("b", 1, 1, 2)]


def test_equal_text_of_nothing_is_not_available() -> None:
    assert equal_text("mtp", [], []).share is None
    failed = [(cell(), [record(failed=True)])]
    assert equal_text("mtp", failed, failed).compared == 0


@pytest.mark.parametrize(("a", "b", "at"), [("same", "same", None), ("abc", "ab", 2), ("", "x", 0), ("é1", "é2", 1)])
def test_first_difference_is_the_index_of_the_first_differing_character(a: str, b: str, at: int | None) -> None:
    assert first_difference(a, b) == at
