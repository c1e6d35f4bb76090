"""Stages, made workloads and goodput on a real server: what was asked for is what was sent, and counters agree."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from specdeck.load.loop import run_load
from specdeck.load.prompts import Prompt
from specdeck.results.schema import Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAN = """
name: shapes
title: A step, a ramp, a shared prefix
arms: [dflash2]
baseline: null
concurrency: [4]
max_tokens: 12
temperature: 0.7
top_k: 20
seed: 3
stages:
  - {request_rate: 3, requests: 3}
  - {request_rate: 2, to_request_rate: 6, requests: 4}
workload: {kind: shared_prefix, words: 40}
repeat_prompts: true
limit: 5
goodput: {ttft: 600000, tpot: 0.000001}
warmup_requests: 1
"""


async def test_a_staged_load_with_a_shared_prefix_is_sent_measured_and_reported_as_asked_for(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    dflash2 = await live("dflash2")
    plan = tmp_path / "shapes.yml"
    plan.write_text(PLAN)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specdeck", "bench", "tiny-next-cpu", "--plan", str(plan), "--arm", "dflash2"),
        *("--base-url", f"dflash2={dflash2.server.base_url}", "--results", str(tmp_path / "results")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    (run,) = (tmp_path / "results").iterdir()
    (folder,) = (run / "dflash2").glob("c4-*")
    cell = json.loads((folder / "cell.json").read_text())
    records = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert cell["status"] == "ok", cell["findings"]
    assert [record["stage"] for record in records] == [1, 1, 1, 2, 2, 2, 2]
    assert [stage["requests"] for stage in cell["stages"]] == [3, 4]
    assert (cell["sampling"]["top_k"], cell["sampling"]["seed"]) == (20, 3)
    assert all(record["scheduled_s"] <= record["sent_s"] for record in records)
    assert len({record["prompt_id"] for record in records}) == 5
    assert cell["counters"]["prefix_cache_queries"] > 0
    (row,) = json.loads((run / "summary.json").read_text())["rows"]
    assert (row["goodput"]["good"], row["goodput"]["requests"]) == (0, 7)
    assert "Stages of the load" in output
    assert "Goodput: TTFT ≤ 600000 ms, TPOT ≤ 1e-06 ms" in output
    assert len((run / "tables" / "stages.csv").read_text().splitlines()) == 3


async def test_turns_of_a_conversation_grow_by_the_answers_that_came_and_find_them_in_the_cache(
    live: Callable[[str], Awaitable[Live]],
) -> None:
    target = (await live("mtp")).target
    prompts = [
        Prompt(id=name, category="talk", prompt=f"{name} counts ducks.", follow_ups=("And then?", "Once more."))
        for name in ("Ann", "Bob")
    ]
    load = await run_load(
        target, prompts, concurrency=2, sampling=Sampling(temperature=0.0, max_tokens=24), request_timeout_s=120
    )
    records = list(load.records)
    assert [record.error for record in records] == [None] * 6
    for first, second, third in (records[:3], records[3:]):
        lengths = [record.prompt_tokens or 0 for record in (first, second, third)]
        assert lengths[0] < lengths[1] < lengths[2]
        assert lengths[1] - lengths[0] >= (first.completion_tokens or 0) - 1, "the answer is part of the next prompt"
        assert first.end_s <= (second.sent_s or 0) < second.end_s <= (third.sent_s or 0)
