"""Charts of the HTML pages: ticks, what is drawn for which run, and that hostile names stay text."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from support.runs import run, whole_run
from support.sides import measured, with_floors

from specdeck.gates.evaluate import evaluate
from specdeck.gates.models import load_gates
from specdeck.report.charts import comparison
from specdeck.report.charts.plot import Plot, linear_ticks, log_ticks, look, plain
from specdeck.report.charts.run import charts
from specdeck.stats.summary import summarize


@pytest.mark.parametrize(
    ("high", "expected"),
    [(0.0, [0, 1]), (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (197.0, [0, 50, 100, 150, 200]), (7.0, [0, 2, 4, 6, 8])],
)
def test_linear_ticks_are_round_and_reach_the_top(high: float, expected: list[float]) -> None:
    assert linear_ticks(high) == expected


def test_log_ticks_are_round_few_and_inside() -> None:
    assert log_ticks(28, 160) == [50, 100]
    assert log_ticks(4, 30) == [5, 10, 20]
    wide = log_ticks(0.01, 1e6)
    assert len(wide) <= 6
    assert all(0.01 <= x <= 1e6 for x in wide)


def test_ticks_have_no_exponent_and_no_trailing_zeros() -> None:
    assert [plain(x) for x in (0.0, 0.2, 50.0, 1e-5, 2e7)] == ["0", "0.2", "50", "0.00001", "20000000"]


def test_series_that_stand_together_differ_in_colour_and_in_shape() -> None:
    looks = [look(i) for i in range(4)]
    assert len({item.colour for item in looks}) == len({item.shape for item in looks}) == 4


def test_a_logarithmic_axis_puts_the_geometric_middle_in_the_middle() -> None:
    assert Plot("t", "a", (10, 1000), (0, 1), x_log=True).at_x(100) == "50.00%"


def test_every_chart_is_well_formed_and_says_its_figures() -> None:
    found = charts(summarize(*whole_run(rounds=2)))
    assert set(found) == {"throughput", "acceptance", "latency", "timeline"}
    for text in found.values():
        ET.fromstring(f"<x>{text}</x>")
    assert "concurrency 4" in found["throughput"]
    assert len(re.findall(r'class="block', found["timeline"])) == 12


def test_an_invalid_cell_is_an_outline_on_the_timeline() -> None:
    made, cells = whole_run()
    cells[0] = (replace(cells[0][0], status="invalid"), cells[0][1])
    text = charts(summarize(made, cells))["timeline"]
    assert len(re.findall(r'class="block \w+ invalid"', text)) == 1
    assert "Outlines" in text


def test_throughput_against_draft_length_is_drawn_when_one_method_was_measured_at_two() -> None:
    made, cells = whole_run(arms=("none", "mtp", "mtp5"))
    assert "against draft length" not in charts(summarize(made, cells))["throughput"]
    info = replace(made.arms["mtp5"], method="mtp", num_speculative_tokens=5)
    swept = replace(made, arms={**made.arms, "mtp5": info})
    text = charts(summarize(swept, cells))["throughput"]
    assert "Output tok/s against draft length" in text
    assert "mtp n=3 at concurrency 1" in text
    assert "mtp n=5 at concurrency 4" in text


def test_nothing_measured_gives_no_chart() -> None:
    assert charts(summarize(run(), [])) == {}


def test_the_forest_has_a_row_for_each_ratio_and_marks_what_is_worse() -> None:
    outcome = evaluate(with_floors(measured("base")), measured("slow", slower=1.2, seed=5), load_gates("default"))
    text = comparison.forest(outcome)
    ET.fromstring(f"<x>{text}</x>")
    ratios = [e for e in outcome.comparison.effects if e.kind == "ratio"]
    assert text.count('class="strip"') == len(ratios) == 6
    assert text.count('<li class="worse">') == sum(e.verdict == "worse" for e in ratios) > 0
    assert text.count('class="floor"') == 6


def test_acceptance_of_both_sides_is_drawn_for_arms_that_draft() -> None:
    outcome = evaluate(measured("base"), measured("other", accepted=1), load_gates("default"))
    text = comparison.acceptance(outcome)
    ET.fromstring(f"<x>{text}</x>")
    assert text.count("<figure>") == 1
    assert "position 2 50.0 % to 0.0 %" in text
