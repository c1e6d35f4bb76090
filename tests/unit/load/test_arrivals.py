"""An open loop's moments: the rate and the burstiness that were asked for, the same for the same seed."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdeck.load.arrivals import arrivals, queue_time_p99_ms, sent_rate
from specdeck.results.schema import RequestRecord


def _record(due: float, sent: float | None) -> RequestRecord:
    return RequestRecord(
        request_id="", index=0, prompt_id="", category="", scheduled_s=due, sent_s=sent, end_s=due + 100
    )


@given(st.integers(2, 200), st.floats(0.1, 1000), st.floats(0.05, 50), st.integers(0, 5))
def test_the_whole_has_exactly_the_rate_and_moments_ascend_from_zero(
    count: int, rate: float, burstiness: float, seed: int
) -> None:
    due = arrivals(count, rate, burstiness, seed)
    assert (len(due), due[0]) == (count, 0.0)
    assert all(earlier <= later for earlier, later in pairwise(due))
    assert due[-1] == pytest.approx((count - 1) / rate)
    assert due == arrivals(count, rate, burstiness, seed)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, 1e6])
def test_the_gaps_spread_as_a_gamma_distribution_of_that_shape_does(burstiness: float) -> None:
    gaps = [later - earlier for earlier, later in pairwise(arrivals(20_000, 10.0, burstiness, 1))]
    assert stdev(gaps) / mean(gaps) == pytest.approx(burstiness**-0.5, rel=0.08)


def test_seeds_differ_and_a_rate_of_nothing_is_refused() -> None:
    assert arrivals(5, 1.0, seed=1) != arrivals(5, 1.0, seed=2)
    assert (arrivals(0, 1.0), arrivals(1, 1.0)) == ((), (0.0,))
    for wrong in ((0.0, 1.0), (1.0, 0.0)):
        with pytest.raises(ValueError, match="above 0"):
            arrivals(3, *wrong)


def test_waiting_and_rate_are_those_of_what_was_sent() -> None:
    records = [_record(0, 0.0), _record(1, 1.5), _record(2, 3.0), _record(3, None)]
    assert sent_rate(records) == pytest.approx(2 / 3)
    assert queue_time_p99_ms(records) == pytest.approx(1000)
    assert (sent_rate(records[:1]), queue_time_p99_ms([])) == (None, None)
