"""The planner's blocks and tokens against a real engine with a fixed KV budget: equal, not near."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from specdeck.checkpoint import load_facts
from specdeck.engine.command import build_command
from specdeck.engine.local import start_local
from specdeck.engine.ports import free_port
from specdeck.engine.readiness import Expectation, prove_ready
from specdeck.planner.plan import plan_arm

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.recipe import Recipe

pytestmark = pytest.mark.asyncio(loop_scope="session")
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")


@pytest.mark.parametrize(
    ("arm", "options"),
    [
        ("none", {}),
        ("mtp", {}),
        ("dflash2", {}),
        ("dflash2", {"enable_prefix_caching": False, "max_model_len": 1024, "max_num_batched_tokens": 512}),
    ],
)
async def test_the_planned_pool_is_the_engines(
    recipe: Recipe, root: Path, python: Path, tmp_path: Path, arm: str, options: dict[str, object]
) -> None:
    env = recipe.serve.env | {"VLLM_CPU_KVCACHE_SPACE": "1"}
    fixed = recipe.model_copy(update={"serve": recipe.serve.model_copy(update={"env": env, **options})})
    drafter = load_facts(fixed.drafter, root) if fixed.drafter else None
    plan = plan_arm(fixed, arm, load_facts(fixed.target, root), drafter)
    assert plan.pools is not None
    assert len(set(plan.pools)) == 1

    port = free_port()
    log = tmp_path / "server.log"
    server = await start_local(
        build_command(fixed, arm, python=python, host="127.0.0.1", port=port, root=root), log, port=port
    )
    try:
        await prove_ready(server, Expectation.of(fixed, arm, root=root), timeout_s=420, progress=print)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
    finally:
        await server.stop()
    labels = next(
        sample.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "vllm:cache_config_info"
    )
    reported = _TOKENS.search(log.read_text(encoding="utf-8", errors="replace"))
    assert int(labels["num_gpu_blocks"]) == plan.pools[1].blocks
    assert int(labels["block_size"]) == plan.block_tokens
    assert reported
    assert int(reported[1].replace(",", "")) == plan.pools[1].tokens
