"""The summary of whole runs: what is in it, what is kept out, and what it says about the rest."""

from __future__ import annotations

import msgspec
import pytest
from support.runs import cell, payload, record, run, whole_run

from specdeck.results.schema import ArmInfo, CounterDelta, Finding
from specdeck.stats.model import CPU_NOTICE, UNKNOWN_DEVICE_NOTICE, Summary
from specdeck.stats.summary import summarize

INVALID = Finding(code="contaminated", severity="invalid", message="drafts of somebody else")


def test_there_is_a_row_for_every_arm_and_concurrency_in_the_plans_order() -> None:
    found = summarize(*whole_run())
    assert [(row.arm, row.concurrency) for row in found.rows] == [
        (arm, at) for arm in ("none", "mtp", "dflash2") for at in (1, 4)
    ]
    assert {row.rounds for row in found.rows} == {2}
    assert {row.requests for row in found.rows} == {24}
    assert {row.prompts for row in found.rows} == {12}
    assert all(row.mean_completion_tokens == 64 for row in found.rows)
    assert all(row.prefix_hit_rate == 0.25 for row in found.rows)


def test_only_the_baseline_has_no_ratio() -> None:
    found = summarize(*whole_run())
    assert [row.arm for row in found.rows if row.ratio is None] == ["none", "none"]
    for row in found.rows:
        if row.ratio is not None:
            base = next(r for r in found.rows if r.arm == "none" and r.concurrency == row.concurrency)
            assert row.output_tok_s.value is not None
            assert base.output_tok_s.value is not None
            assert row.ratio.value == pytest.approx(row.output_tok_s.value / base.output_tok_s.value)


def test_the_drafters_acceptance_agrees_between_witnesses_and_the_baseline_has_none() -> None:
    found = summarize(*whole_run())
    by_name = {arm.name: arm for arm in found.arms}
    for name in ("mtp", "dflash2"):
        arm = by_name[name]
        assert arm.acceptance.length_from_counters == pytest.approx(arm.acceptance.length_from_payloads)
        total = sum(p.rate.value or 0 for p in arm.positions)
        assert total == pytest.approx((arm.acceptance.length.value or 0) - 1)
    assert by_name["none"].acceptance.length.value is None
    assert by_name["none"].positions == ()


def test_categories_split_acceptance_and_request_throughput() -> None:
    found = summarize(*whole_run())
    rows = [row for row in found.categories if row.arm == "dflash2"]
    assert [row.category for row in rows] == ["math", "code", "chat"]
    lengths = [row.acceptance_length.value or 0 for row in rows]
    assert lengths[0] > lengths[2]
    assert [rate.concurrency for rate in rows[0].request_tok_s] == [1, 4]
    assert rows[0].acceptance_length.interval is None, "four prompts are too few for an interval"


def test_invalid_cells_are_in_no_figure_and_are_listed() -> None:
    made, cells = whole_run()
    spoiled = [
        (msgspec.structs.replace(c, status="invalid", findings=(INVALID,)), r) if c.arm == "mtp" else (c, r)
        for c, r in cells
    ]
    found = summarize(made, spoiled)
    assert found.excluded_cells == 4
    assert "mtp" not in {row.arm for row in found.rows}
    assert "mtp" not in {row.arm for row in found.categories}
    assert next(arm for arm in found.arms if arm.name == "mtp").cells == 0
    assert {note.cell_id for note in found.findings if note.code == "contaminated"} == {
        "c1-r1",
        "c1-r2",
        "c4-r1",
        "c4-r2",
    }
    assert [note.message for note in found.findings if note.code == "arm-not-measured"] == ["arm mtp has no valid cell"]


def test_a_run_without_any_valid_cell_has_no_rows_but_says_why() -> None:
    found = summarize(run(("none",)), [(cell(findings=(INVALID,)), [record()])])
    assert found.rows == ()
    assert {note.code for note in found.findings} >= {"contaminated", "arm-not-measured", "no-baseline"}


def test_an_invalid_baseline_leaves_ratios_absent_not_wrong() -> None:
    made, cells = whole_run()
    spoiled = [
        (msgspec.structs.replace(c, status="invalid", findings=(INVALID,)), r) if c.arm == "none" else (c, r)
        for c, r in cells
    ]
    found = summarize(made, spoiled)
    assert all(row.ratio is not None and row.ratio.value is None for row in found.rows)
    assert "no-baseline" in {note.code for note in found.findings}
    assert all(item.share is None for item in found.equal_text)


def test_a_run_without_baseline_has_no_ratio_and_no_text_comparison() -> None:
    found = summarize(*whole_run(baseline=None))
    assert all(row.ratio is None for row in found.rows)
    assert found.equal_text == ()


def test_texts_that_differ_are_named() -> None:
    found = summarize(*whole_run())
    by_arm = {item.arm: item for item in found.equal_text}
    assert by_arm["mtp"].share == 1.0
    assert by_arm["dflash2"].share == pytest.approx(44 / 48)
    assert {d.prompt_id for d in by_arm["dflash2"].differences} == {"code-02"}


def test_witnesses_that_disagree_are_reported() -> None:
    records = [record(f"p{i}", index=i, spec=payload(2, n=3)) for i in range(8)]
    counted = CounterDelta(drafts=8, draft_tokens=24, accepted_tokens=4, accepted_per_pos=(3, 0, 0))
    found = summarize(run(("mtp",), baseline=None), [(cell("mtp", counters=counted), records)])
    assert {note.code for note in found.findings} >= {"witnesses-disagree", "positions-disagree"}


def test_failed_requests_are_counted_in_the_row_and_noted() -> None:
    records = [record(), record("b", index=1, failed=True)]
    found = summarize(run(("none",)), [(cell(records=records), records)])
    assert (found.rows[0].requests, found.rows[0].failed) == (1, 1)
    assert [n.message for n in found.findings] == ["1 of 2 requests failed and are in no figure"]


def test_thin_pairing_is_said() -> None:
    records = [record(f"p{i}", index=i) for i in range(8)]
    holed = [record(f"p{i}", index=i, failed=i == 0) for i in range(8)]
    cells = [
        (cell(), records),
        (cell("mtp"), holed),
        (cell("mtp", round_=2), records),
    ]
    codes = {note.code for note in summarize(run(("none", "mtp")), cells).findings}
    assert codes >= {"ratio-rounds", "ratio-pairs"}
    apart = [(cell(), records), (cell("mtp", round_=2), records)]
    assert "ratio-unpaired" in {note.code for note in summarize(run(("none", "mtp")), apart).findings}


def test_a_single_request_gives_figures_without_intervals() -> None:
    found = summarize(run(("none",)), [(cell(), [record()])])
    row = found.rows[0]
    assert row.output_tok_s.value == pytest.approx(1.1)
    assert row.output_tok_s.interval is None
    assert row.ttft_s.p50 == row.ttft_s.p99 == 0.5


def test_zero_drafts_give_no_acceptance() -> None:
    counted = CounterDelta(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_pos=(0, 0, 0))
    found = summarize(run(("mtp",), baseline=None), [(cell("mtp", counters=counted), [record()])])
    assert found.rows[0].acceptance.length.value is None
    assert found.rows[0].acceptance.draft_acceptance_rate is None
    assert found.arms[0].positions == ()


def test_the_device_decides_the_notice_beside_throughput() -> None:
    assert summarize(*whole_run()).throughput_notice == CPU_NOTICE
    assert summarize(*whole_run(device="cuda")).throughput_notice is None
    assert summarize(*whole_run(device="unknown")).throughput_notice == UNKNOWN_DEVICE_NOTICE
    assert "does not predict a GPU" in CPU_NOTICE


def test_an_arm_that_could_not_be_served_says_why() -> None:
    made = run(("none",))
    made = msgspec.structs.replace(
        made, arms={**made.arms, "mtp": ArmInfo(name="mtp", unavailable="the checkpoint has no MTP layer")}
    )
    found = summarize(made, [(cell(), [record()])])
    assert "arm mtp was not measured: the checkpoint has no MTP layer" in {n.message for n in found.findings}


def test_an_unfinished_run_says_so() -> None:
    assert "run-incomplete" in {n.code for n in summarize(*whole_run(status="partial")).findings}


def test_a_summary_survives_json_and_is_the_same_every_time() -> None:
    first, second = summarize(*whole_run()), summarize(*whole_run())
    assert first == second
    assert msgspec.json.decode(msgspec.json.encode(first), type=Summary) == first
    assert b"NaN" not in msgspec.json.encode(first)


def test_the_order_of_cells_and_records_does_not_matter() -> None:
    made, cells = whole_run()
    shuffled = [(c, list(reversed(r))) for c, r in reversed(cells)]
    assert msgspec.json.encode(summarize(made, shuffled).equal_text) == msgspec.json.encode(
        summarize(made, cells).equal_text
    )
    assert [r.output_tok_s.value for r in summarize(made, shuffled).rows] == pytest.approx(
        [r.output_tok_s.value for r in summarize(made, cells).rows]
    )
