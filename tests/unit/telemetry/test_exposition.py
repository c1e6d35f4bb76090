"""The exposition parser reads what Prometheus' own parser reads, refuses garbage by line, and is fast."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from specdeck.errors import SpecdeckError
from specdeck.telemetry.exposition import parse

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LABELS = st.dictionaries(LABEL_NAMES, VALUES, max_size=4)
SERIES = st.lists(st.tuples(NAMES, LABELS, st.floats()), max_size=8)


def _line(name: str, labels: dict[str, str], value: float) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    inside = ",".join(f'{key}="{quoted(text)}"' for key, text in labels.items())
    number = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))
    return f"{name}{{{inside}}} {'NaN' if math.isnan(value) else number}\n"


@given(SERIES)
def test_what_is_written_is_read_back_with_quotes_escapes_exponents_and_infinities(
    series: list[tuple[str, dict[str, str], float]],
) -> None:
    found = parse("".join(_line(*one) for one in series))
    expected: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in series:
        expected.setdefault(name, []).append((labels, value))
    assert list(found.names()) == list(expected)
    for name, samples in expected.items():
        for sample, (labels, value) in zip(found.get(name), samples, strict=True):
            assert sample.labels == labels
            assert sample.value == value or (math.isnan(sample.value) and math.isnan(value))


def test_it_agrees_with_prometheus_own_parser_on_vllm_text() -> None:
    text = (
        "# HELP vllm:e2e_request_latency_seconds Histogram of \\n latency.\n"
        "# TYPE vllm:e2e_request_latency_seconds histogram\n"
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="tiny"} 0.0\n'
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 4.0\n'
        'vllm:e2e_request_latency_seconds_count{engine="0",model_name="tiny"} 4.0\n'
        'vllm:e2e_request_latency_seconds_sum{engine="0",model_name="tiny"} 6.403488397598267\n'
        "# TYPE vllm:generation_tokens_created gauge\n"
        'vllm:generation_tokens_created{engine="0",model_name="tiny"} 1.796078170816838e+09\n'
        "\n"
        "# TYPE process_start_time_seconds gauge\n"
        "process_start_time_seconds 1.79607809221e+09\n"
    )
    theirs = sorted(
        (s.name, sorted(s.labels.items()), s.value) for f in text_string_to_metric_families(text) for s in f.samples
    )
    found = parse(text)
    ours = sorted((name, sorted(s.labels.items()), s.value) for name in found.names() for s in found.get(name))
    assert ours == theirs
    assert found.types["vllm:e2e_request_latency_seconds"] == "histogram"


def test_white_space_time_stamps_and_a_trailing_comma_are_allowed() -> None:
    found = parse(' a { x = "1" , y="2", }\t3e2 1796078092210 \n\nb 4\n')
    assert (found.get("a")[0].labels, found.get("a")[0].value) == ({"x": "1", "y": "2"}, 300.0)
    assert found.get("b")[0].value == 4.0
    assert found.get("c") == []
    assert len(found) == 2


@pytest.mark.parametrize(
    "line",
    [
        "<html>",
        "a",
        "a b",
        "a 1 2 3",
        "a 1_000",
        "a infinity",
        "a 0x10",
        'a{x="1} 2',
        'a{x="1" y="2"} 2',
        'a{x="\\q"} 2',
        "a{x=1} 2",
        "a{,} 2",
        "1a 2",
        'a{x="1"',
        "# TYPE a",
        "# TYPE a thermometer",
    ],
)
def test_garbage_is_refused_with_its_line_number(line: str) -> None:
    with pytest.raises(SpecdeckError) as caught:
        parse(f"good 1\n{line}\ngood 2\n", where="http://h/metrics")
    assert caught.value.where == "http://h/metrics:2"


def test_a_text_that_breaks_off_is_refused() -> None:
    with pytest.raises(SpecdeckError, match="breaks off"):
        parse("a 1\nb 1")


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    with suppress(SpecdeckError):
        assert len(parse(text)) <= text.count("\n")


def test_fifty_thousand_series_are_all_read() -> None:
    text = "".join(
        f'vllm:request_latency_{i // 500}_bucket{{engine="{i % 8}",le="{i}.0",model_name="org/model"}} {i * 1.5}\n'
        for i in range(50_000)
    )
    found = parse(text)
    assert len(found) == 50_000
    assert found.get("vllm:request_latency_99_bucket")[-1].value == 49_999 * 1.5


def test_a_hostile_line_ends_in_a_refusal() -> None:
    with pytest.raises(SpecdeckError):  # a pattern that backtracks would not come back from these at all
        parse("a{" + 'x="' + "\\\\" * 200_000 + "\n")
    with pytest.raises(SpecdeckError):
        parse("a{" + 'x="1",' * 100_000 + "! 3\n")
