"""How figures are written, and what each format shows of a whole run and of broken ones."""

from __future__ import annotations

import csv
import io
import re
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console
from support.runs import cell, record, run, whole_run

from specdeck.report import csv_tables, html, markdown, readme
from specdeck.report.findings import finding_lines
from specdeck.report.format import (
    clean,
    milliseconds,
    percent,
    ratio,
    significant,
    with_interval,
    with_spread,
)
from specdeck.report.headline import headline
from specdeck.report.pictures import PICTURES
from specdeck.report.tables import tables
from specdeck.report.terminal import plain_table, print_summary
from specdeck.results.schema import CounterDelta, Finding
from specdeck.stats.model import CPU_NOTICE, Estimate, Interval, Spread, Summary
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdeck.report.table import Table
    from specdeck.results.schema import Run

EVIL = '<script>alert("x")</script>|`*_[a](http://b)\x1b[31m\u202e'
INVALID = Finding(code="contaminated", severity="invalid", message=EVIL)


def _failed_run() -> tuple[Run, Any]:
    made, cells = whole_run()
    return made, [(c, r) for c, r in cells if c.arm != "mtp"]


def _all_invalid() -> tuple[Run, Any]:
    made, cells = whole_run()
    return made, [(msgspec.structs.replace(c, status="invalid", findings=(INVALID,)), r) for c, r in cells]


def _zero_drafts() -> tuple[Run, Any]:
    counted = CounterDelta(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_pos=(0, 0, 0))
    return run(("none", "mtp")), [(cell(), [record()]), (cell("mtp", counters=counted), [record()])]


def _no_usage() -> tuple[Run, Any]:
    return run(("none",)), [(cell(), [record(tokens=None, first=None, last=None)])]


def _evil() -> tuple[Run, Any]:
    names = [EVIL + str(i) for i in range(12)]
    return whole_run(names=names, recipe_name=EVIL, prompts_file=EVIL)


RUNS: dict[str, Callable[[], tuple[Run, Any]]] = {
    "whole": whole_run,
    "no payloads": lambda: whole_run(payloads=False),
    "no baseline": lambda: whole_run(baseline=None),
    "one arm missing": _failed_run,
    "only the baseline": lambda: whole_run(arms=("none",)),
    "single request": lambda: (run(("none",)), [(cell(), [record()])]),
    "zero drafts": _zero_drafts,
    "no usage": _no_usage,
    "all invalid": _all_invalid,
    "no cells": lambda: (run(), []),
    "hostile names": _evil,
    "many levels": lambda: whole_run(concurrency=(1, 2, 4, 8, 16, 32), rounds=1),
    "gpu": lambda: whole_run(device="cuda"),
    "bare provenance": lambda: whole_run(provenance={}),
}


@cache
def _case(name: str) -> tuple[Run, Summary]:
    made, cells = RUNS[name]()
    return made, summarize(made, cells)


@cache
def _html(name: str) -> str:
    return html.render(*_case(name))


@pytest.fixture(params=list(RUNS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _printed(summary: Summary, width: int, *, terminal: bool) -> str:
    out = io.StringIO()
    print_summary(summary, Console(file=out, width=width, force_terminal=terminal, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234.6, "1235"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.00123456, "0.00123"),
        (99.96, "100.0"),
    ],
)
def test_figures_carry_three_significant_digits(value: float | None, expected: str) -> None:
    assert significant(value) == expected


def test_missing_is_a_dash_never_zero() -> None:
    assert {
        percent(None),
        milliseconds(None),
        with_interval(Estimate()),
        with_spread(Estimate()),
        ratio(Estimate()),
    } == {"–"}


def test_brackets_hold_the_interval_or_the_rounds() -> None:
    interval = Interval(lo=4.021, hi=4.599, prompts=10, level=0.95)
    assert with_interval(Estimate(value=4.31, interval=interval)) == "4.31 [4.02–4.60]"
    assert ratio(Estimate(value=4.31, interval=interval)) == "4.31× [4.02–4.60]"
    assert with_spread(Estimate(value=44.71, spread=Spread(min=44.6, max=44.84, rounds=2))) == "44.7 [44.6–44.8]"
    assert with_spread(Estimate(value=44.71, spread=Spread(min=44.71, max=44.71, rounds=1))) == "44.7"
    assert ratio(None) == "baseline"


def test_foreign_text_loses_control_characters_and_length() -> None:
    assert clean("a\x1b[2J\nb\u202ec") == "a [2J b c"
    assert len(clean("x" * 1000)) == 500


def test_the_headline_says_who_accepts_how_much_and_who_is_how_fast() -> None:
    text = headline(summarize(*whole_run()))
    number = r"\d\.\d\d \[\d\.\d\d–\d\.\d\d\]"
    pair = r"\d\.\d\d× \[\d\.\d\d–\d\.\d\d\] vs \d\.\d\d× \[\d\.\d\d–\d\.\d\d\]"
    assert re.fullmatch(
        rf"DFlash2 \(n=7\) vs MTP \(n=3\) on tiny-next-cpu, 12 prompts, 2 rounds, greedy: acceptance length {number} "
        rf"vs {number}; output tok/s relative to none {pair} at concurrency 1, {pair} at concurrency 4 "
        rf"\({CPU_NOTICE}\)\.",
        text,
    )


def test_the_headline_of_a_run_without_valid_cells_says_so() -> None:
    assert headline(summarize(*_all_invalid())) == "Nothing to compare on tiny-next-cpu: 12 cells measured, none valid."
    assert headline(summarize(run(), [])) == "Nothing to compare on tiny-next-cpu: no cell was measured."


def test_without_a_baseline_the_headline_gives_throughput_itself() -> None:
    text = headline(summarize(*whole_run(baseline=None)))
    assert "relative" not in text
    assert "×" not in text
    assert CPU_NOTICE in text


def test_many_levels_are_named_by_the_lowest_and_the_highest() -> None:
    text = headline(summarize(*RUNS["many levels"]()))
    assert re.findall(r"at concurrency (\d+)", text) == ["1", "32"]


def test_every_format_renders_every_run(name: str) -> None:
    made, summary = _case(name)
    for width in (80, 120):
        assert _printed(summary, width, terminal=True)
    assert headline(summary) in _printed(summary, 80, terminal=False)
    assert markdown.render(made, summary).startswith("# ")
    assert _html(name).endswith("</html>\n")
    assert readme.snippet(made, summary, "results/measured/x")
    for text in csv_tables.render(summary).values():
        lines = list(csv.reader(io.StringIO(text)))
        assert {len(line) for line in lines} == {len(lines[0])}


def test_no_format_writes_none_or_nan(name: str) -> None:
    made, summary = _case(name)
    texts = [
        _printed(summary, 120, terminal=False),
        markdown.render(made, summary),
        _html(name),
        *csv_tables.render(summary).values(),
    ]
    for text in texts:
        assert not re.search(r"\b(None|nan|NaN|inf)\b", text)


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_lines_fit_the_width(width: int) -> None:
    for line in _printed(summarize(*whole_run()), width, terminal=True).splitlines():
        assert len(line.rstrip()) <= width


def test_at_eighty_columns_no_figure_is_broken_over_two_lines() -> None:
    summary = summarize(*whole_run())
    text = _printed(summary, 80, terminal=True)
    for table in tables(summary):
        for row in table.rows:
            assert re.search(r"^\s*" + r"\s+".join(re.escape(part) for part in row) + r"\s*$", text, re.MULTILINE)


def test_without_a_terminal_there_are_only_plain_lines() -> None:
    text = _printed(summarize(*whole_run()), 80, terminal=False)
    assert not re.search(r"[\u2500-\u257f\x1b]", text)
    assert text.splitlines()[0] == headline(summarize(*whole_run()))


def test_plain_columns_are_aligned_whatever_the_script() -> None:
    made, cells = whole_run(arms=("none", "草稿模型"))
    table = next(t for t in tables(summarize(made, cells)) if t.key == "throughput")
    assert {cell_len(line) for line in plain_table(table) if line.endswith("24")} == {cell_len(plain_table(table)[0])}


def _throughput_tables(summary: Summary) -> list[Table]:
    return [t for t in tables(summary) if t.key in ("throughput", "latency", "category-throughput")]


def test_on_the_cpu_engine_every_throughput_table_carries_the_notice() -> None:
    summary = summarize(*whole_run())
    assert len(_throughput_tables(summary)) == 3
    assert all(table.notice == CPU_NOTICE for table in _throughput_tables(summary))


def test_on_the_cpu_engine_every_output_says_it_does_not_predict_a_gpu_beside_throughput() -> None:
    made, cells = whole_run()
    summary = summarize(made, cells)
    plain = _printed(summary, 80, terminal=False)
    for table in _throughput_tables(summary):
        assert f"{table.title} ({CPU_NOTICE})" in plain
        assert f"## {table.title} ({CPU_NOTICE})" in markdown.render(made, summary)
        assert f'{table.title} <span class="notice">{CPU_NOTICE}</span>' in _html("whole")
    assert CPU_NOTICE in headline(summary)
    assert CPU_NOTICE in PICTURES[1].alt(summary)
    assert f"**{CPU_NOTICE}**" in readme.snippet(made, summary)
    written = csv_tables.render(summary)
    for name in ("arms.csv", "latency.csv", "per_category.csv"):
        assert all(line.endswith(f",{CPU_NOTICE}") for line in written[name].splitlines()[1:])
    assert msgspec.json.decode(msgspec.json.encode(summary))["throughput_notice"] == CPU_NOTICE


def test_on_a_gpu_nothing_says_cpu_engine() -> None:
    made, cells = whole_run(device="cuda")
    summary = summarize(made, cells)
    everything = [
        _printed(summary, 80, terminal=False),
        markdown.render(made, summary),
        _html("gpu"),
        readme.snippet(made, summary),
        *csv_tables.render(summary).values(),
    ]
    assert not any(CPU_NOTICE in text for text in everything)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _page(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    return page


def test_foreign_text_stays_text_in_html(name: str) -> None:
    page = _page(_html(name))
    assert not {tag for tag, _ in page.tags} & {"script", "a", "iframe", "object", "link", "base", "form"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_the_page_loads_nothing_and_forbids_loading(name: str) -> None:
    text = _html(name)
    page = _page(text)
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in page.tags)
    for _, attrs in page.tags:
        for name in ("src", "href", "srcset"):
            assert (attrs.get(name) or "data:").startswith("data:")
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_every_chart_has_alternative_text_and_its_height_so_that_nothing_jumps() -> None:
    page = _page(_html("whole"))
    plots = [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("class") == "plot"]
    assert len(plots) == 5, "throughput, acceptance, two latencies, timeline"
    for attrs in plots:
        assert attrs["role"] == "img"
        assert len(attrs["aria-label"] or "") > 20
        assert float(attrs["height"] or 0) > 0


def test_markdown_leaves_foreign_markup_dead() -> None:
    made, cells = _evil()
    text = re.sub(r"`[^`\n]*`", "", markdown.render(made, summarize(made, cells)))  # code is literal
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(http", text)
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    heads = [line for line in rows if "<br>" in line or line.startswith(("| arm", "| category"))]
    assert heads
    for start, line in enumerate(rows):
        if set(line) <= set("|:- "):
            columns = len(re.findall(r"(?<!\\)\|", line))
            assert len(re.findall(r"(?<!\\)\|", rows[start - 1])) == columns


def test_hostile_findings_reach_no_terminal_as_control_codes() -> None:
    summary = summarize(*_all_invalid())
    assert "\x1b" not in _printed(summary, 80, terminal=False)
    assert "\u202e" not in _printed(summary, 80, terminal=False)


def test_equal_findings_of_several_cells_are_said_once() -> None:
    lines = finding_lines(summarize(*_all_invalid()))
    invalid = [line for line in lines if line.severity == "invalid"]
    assert [line.where for line in invalid] == [
        f"{arm} c1-r1, c1-r2, c4-r1, c4-r2" for arm in ("dflash2", "mtp", "none")
    ]
    assert lines[: len(invalid)] == invalid


def test_csv_leaves_missing_cells_empty_and_keeps_raw_units() -> None:
    summary = summarize(*whole_run())
    rows = list(csv.DictReader(io.StringIO(csv_tables.render(summary)["arms.csv"])))
    assert len(rows) == 6
    assert rows[0]["arm"] == "none"
    assert rows[0]["acceptance_length"] == rows[0]["ratio"] == ""
    assert float(rows[2]["ratio"]) == pytest.approx(
        summary.rows[2].ratio.value if summary.rows[2].ratio else None, rel=1e-8
    )
    latency = list(csv.DictReader(io.StringIO(csv_tables.render(summary)["latency.csv"])))
    assert float(latency[0]["p50"]) == pytest.approx(summary.rows[0].ttft_s.p50, rel=1e-8)
    positions = list(csv.DictReader(io.StringIO(csv_tables.render(summary)["per_position.csv"])))
    assert len(positions) == 10


def test_csv_defuses_names_a_spreadsheet_would_run() -> None:
    made = run(("=cmd()",), baseline=None)
    text = csv_tables.render(summarize(made, [(cell("=cmd()"), [record()])]))["arms.csv"]
    assert text.splitlines()[1].startswith("'=cmd()")


def test_the_position_table_has_a_dash_where_an_arm_drafts_no_further() -> None:
    table = next(t for t in tables(summarize(*whole_run())) if t.key == "positions")
    assert [c.head for c in table.columns] == ["position", "MTP (n=3)", "DFlash2 (n=7)"]
    assert [row[1] for row in table.rows[3:]] == ["–"] * 4
    assert all("[" in row[2] for row in table.rows)


def test_texts_that_differ_are_listed_with_the_place() -> None:
    table = next(t for t in tables(summarize(*whole_run())) if t.key == "equal-text")
    assert table.notes == ("dflash2: code-02 differs from character 13 in c1-r1, c1-r2, c4-r1, c4-r2",)
