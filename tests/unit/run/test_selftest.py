"""The client is tried against a server whose truth is known, once for a machine and version, and the answer kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specdeck.load.loop import LoadOutcome
from specdeck.load.loopback.server import Truth
from specdeck.results.schema import RequestRecord
from specdeck.run import selftest
from specdeck.run.selftest import errors_ms, self_test

if TYPE_CHECKING:
    from pathlib import Path


async def test_it_is_measured_once_kept_and_a_damaged_answer_is_found_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await self_test(tmp_path)
    assert found.chunks_per_s > 0
    assert found.ttft_error_max_ms >= found.ttft_error_mean_ms
    assert found.gap_error_p99_ms >= 0
    assert "chunks/s on one core" in found.line()
    (kept,) = tmp_path.iterdir()  # noqa: ASYNC240 - nothing else runs in this loop

    async def never() -> selftest.SelfTest:
        pytest.fail("measured although the answer is kept")

    async def other() -> selftest.SelfTest:
        return found

    monkeypatch.setattr(selftest, "_try_client", never)
    assert await self_test(tmp_path) == found
    kept.write_text("{")
    monkeypatch.setattr(selftest, "_try_client", other)
    assert await self_test(tmp_path) == found
    assert kept.read_text() != "{"


async def test_a_cache_folder_that_cannot_be_made_costs_the_answer_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    answer = selftest.SelfTest(
        chunks_per_s=1.0,
        ttft_error_mean_ms=1.0,
        ttft_error_max_ms=1.0,
        gap_error_p99_ms=1.0,
        loop_lag_p99_ms=None,
        measured_at="",
    )

    async def measured() -> selftest.SelfTest:
        return answer

    monkeypatch.setattr(selftest, "_try_client", measured)
    assert await self_test(tmp_path / "file" / "below") == answer


def test_errors_are_reported_minus_true_for_the_first_token_and_sizes_for_gaps() -> None:
    record = RequestRecord(
        request_id="a", index=0, prompt_id="p", category="", scheduled_s=1.0, end_s=9.0, chunk_s=(1.5, 2.0, 3.0)
    )
    truth = Truth("a", 101.25, (101.5, 102.25, 103.0), (1, 1, 1), complete=True)
    outcome = LoadOutcome((record,), 100.0, 8.0, None, None, 0.0)
    assert errors_ms(outcome, {"a": truth}) == ([250.0], [250.0, 250.0])
