"""The planner against pools that others published, and the table that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.planner.accuracy import GOAL, POOLS, Outcome, fair, outcomes, pool_table, read_pools

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repo_root()
CALIBRATED, HELD_OUT = outcomes(ROOT)


def missed(found: Outcome) -> bool:
    return found.best_test is None or abs(found.best_test) > GOAL


def test_at_least_eight_held_out_pools_whose_settings_were_all_published_are_met_within_ten_percent() -> None:
    assert sum(not missed(found) for found in HELD_OUT if fair(found)) >= 8


def test_every_miss_says_why_and_no_hit_makes_excuses() -> None:
    assert {found.row.title for found in HELD_OUT if missed(found)} == {
        found.row.title for found in HELD_OUT if found.row.note
    }


def test_given_the_memory_that_the_engine_reported_the_pool_follows_within_half_a_percent() -> None:
    errors = [found.layout_error for found in HELD_OUT if found.layout_error is not None and not found.row.note]
    assert len(errors) >= 6
    assert max(map(abs, errors)) < 0.005


def test_published_pools_lie_within_the_range_that_a_plan_prints() -> None:
    outside = [
        found.row.title
        for found in HELD_OUT
        if found.card and not found.card[0].tokens <= found.row.tokens <= found.card[2].tokens
    ]
    # The pool that the table explains as contradicting its sibling.
    assert outside == ["2× RTX 3090, AutoRound W4A16, DFlash2 n=7, FP8 KV, 131k"]


def test_no_row_both_calibrates_and_is_held_out() -> None:
    pools = read_pools(ROOT)
    assert not {row.tokens for row in pools.calibration.values()} & {row.tokens for row in pools.held_out.values()}
    assert not pools.calibration.keys() & pools.held_out.keys()


def test_a_row_with_a_setting_that_nobody_published_is_not_counted_as_a_test() -> None:
    guessed = [found for found in HELD_OUT if "serve.kv_cache_dtype" in found.row.inferred]
    assert guessed
    assert not any(fair(found) for found in guessed)


def test_the_table_has_a_line_for_every_row_and_counts_what_it_shows() -> None:
    table = pool_table(ROOT)
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(lines) == len(HELD_OUT) + len(CALIBRATED)
    hits = sum(not missed(found) for found in HELD_OUT)
    assert table.startswith(f"Of {len(HELD_OUT)} held-out rows {hits} are met within 10 %")


def test_a_wrong_key_is_named_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / POOLS).parent.mkdir(parents=True)
    (tmp_path / POOLS).write_text("calibration: {}\nheld_out: {}\nheldout: {}\n", encoding="utf-8")
    with pytest.raises(SpecdeckError) as caught:
        read_pools(tmp_path)
    assert f"{POOLS}:3" in str(caught.value)
    assert "held_out" in str(caught.value)


def test_a_row_about_a_repository_without_published_facts_is_refused(tmp_path: Path) -> None:
    (tmp_path / POOLS).parent.mkdir(parents=True)
    text = (ROOT / POOLS).read_text(encoding="utf-8")
    (tmp_path / POOLS).write_text(text, encoding="utf-8")
    with pytest.raises(SpecdeckError, match="nothing is published about"):
        outcomes(tmp_path)
