"""Running checks: what fails under a check is told as what it is, and what was observed is not asked again."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from specdeck.errors import SpecdeckError
from specdeck.load.client import Target
from specdeck.paths import repo_root
from specdeck.quality import check
from specdeck.quality.perplexity import Perplexity
from specdeck.quality.registry import CHECKS, choose
from specdeck.quality.runner import make_checks
from specdeck.results.quality import read_checks
from specdeck.results.schema import ArmInfo
from specdeck.run.experiment import open_store
from specdeck.run.options import resolve
from specdeck.run.servers import Served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from specdeck.results.store import RunStore
    from specdeck.run.options import Options

WORDS = 40


class Quiet:
    """A reporter that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def begin(self, total_requests: int) -> None:
        del total_requests

    def request_done(self, label: str) -> None:
        del label


@dataclass
class Scorer:
    """A double that tokenizes by characters and scores every token alike; it can die as a server out of memory does."""

    logprob: float = -0.1
    dies_after: int | None = None
    answer: Any = None
    asked: int = 0
    dead: bool = False
    log: list[str] = field(default_factory=list)
    base_url: str = ""
    served_model: str = "tiny"
    api_key: str | None = None
    log_path: Path | None = None
    pid: int | None = None

    async def stop(self, *, now: bool = False) -> None:
        """Nothing was started."""

    def exit_status(self) -> int | None:
        return 1 if self.dead else None

    def last_log(self, n: int = 30) -> list[str]:
        return self.log[-n:]

    async def tokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"tokens": [ord(c) for c in (await request.json())["prompt"][:WORDS]]})

    async def complete(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.dies_after is not None and self.asked > self.dies_after:
            self.dead = True
            return web.json_response({"error": {"message": "EngineCore encountered an issue."}}, status=500)
        if self.answer is not None:
            return web.json_response(self.answer)
        prompt = (await request.json())["prompt"]
        scores = [None, *({str(token): {"logprob": self.logprob}} for token in prompt[1:])]
        choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": scores}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": len(prompt), "completion_tokens": 1}})

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.dead else 200)


@asynccontextmanager
async def serving(scorer: Scorer) -> AsyncIterator[Scorer]:
    app = web.Application()
    app.router.add_post("/tokenize", scorer.tokenize)
    app.router.add_post("/v1/completions", scorer.complete)
    app.router.add_get("/health", scorer.health)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scorer.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield scorer
    finally:
        await runner.cleanup()


class Doubles:
    """Servers of the arms, and how often each was asked for."""

    def __init__(self, servers: dict[str, Scorer]) -> None:
        self.servers = servers

    async def get(self, arm: str) -> Served:
        server = self.servers[arm]
        if server.dead:
            raise SpecdeckError("the server does not start any more", fix="read its log", exit_code=1)
        return Served(server, Target(server.base_url, "tiny"), ArmInfo(name=arm, readiness={"max_model_len": 64}))

    async def stop(self, *, now: bool = False) -> None:
        """Nothing was started."""


def prepared(tmp_path: Path, arms: list[str]) -> tuple[Options, RunStore, Quiet]:
    reporter = Quiet()
    options = resolve(repo_root(), recipe_name="tiny-next-cpu", plan_name="quality", arms=arms)
    return options, open_store(options, tmp_path, fresh=False, reporter=reporter), reporter


async def test_an_arm_that_scores_as_the_baseline_passes_and_one_that_does_not_fails(tmp_path: Path) -> None:
    options, store, reporter = prepared(tmp_path, ["mtp", "none", "dflash2"])
    assert options.recipe is not None
    plain = options.recipe.model_copy(
        update={"expect": options.recipe.expect.model_copy(update={"perplexity": {}}), "texts": "general"}
    )
    async with serving(Scorer()) as none, serving(Scorer()) as mtp, serving(Scorer(logprob=-0.2)) as worse:
        servers = Doubles({"none": none, "mtp": mtp, "dflash2": worse})
        outcome = await make_checks(replace(options, recipe=plain), store, servers, [Perplexity()], reporter, limit=8)
    verdicts = {result.arm: result.verdict for result in outcome.results}
    assert verdicts == {"none": "unmeasurable", "mtp": "pass", "dflash2": "fail"}
    assert outcome.exit_code() == 1
    assert {result.arm for result in read_checks(store.path)} == {"none", "mtp", "dflash2"}
    assert store.run().status == "complete"


@pytest.mark.parametrize(
    "log",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.46 GiB.",
        "RuntimeError: [enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory",
    ],
)
async def test_a_server_out_of_memory_is_told_with_the_rule_and_is_no_score(tmp_path: Path, log: str) -> None:
    options, store, reporter = prepared(tmp_path, ["none"])
    async with serving(Scorer(dies_after=3, log=["INFO fine", log])) as none:
        outcome = await make_checks(options, store, Doubles({"none": none}), [Perplexity()], reporter, limit=8)
    (result,) = outcome.results
    assert result.verdict == "unmeasurable"
    assert result.value is None
    assert "out of memory" in (result.reason or "")
    assert "gpu_memory_utilization" in (result.reason or "")
    assert outcome.exit_code() == 2


async def test_a_server_that_dies_otherwise_is_told_as_that(tmp_path: Path) -> None:
    options, store, reporter = prepared(tmp_path, ["none"])
    async with serving(Scorer(dies_after=0, log=["ERROR illegal memory access"])) as none:
        outcome = await make_checks(options, store, Doubles({"none": none}), [Perplexity()], reporter, limit=8)
    assert outcome.results[0].verdict == "unmeasurable"
    assert "ended under the check" in (outcome.results[0].reason or "")


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 3}}])
async def test_an_answer_without_log_probabilities_is_no_score(tmp_path: Path, answer: dict[str, Any]) -> None:
    options, store, reporter = prepared(tmp_path, ["none"])
    async with serving(Scorer(answer=answer)) as none:
        outcome = await make_checks(options, store, Doubles({"none": none}), [Perplexity()], reporter, limit=8)
    assert outcome.results[0].verdict == "unmeasurable"
    assert "a request failed" in (outcome.results[0].reason or "")


async def test_what_was_observed_is_not_asked_again(tmp_path: Path) -> None:
    options, store, reporter = prepared(tmp_path, ["none"])
    async with serving(Scorer()) as none:
        for _ in range(2):
            await make_checks(options, store, Doubles({"none": none}), [Perplexity()], reporter, limit=8)
        asked = none.asked
        for path in (store.path / "quality" / "seen").iterdir():
            path.write_text(json.dumps({"of": "another version"}))
        await make_checks(options, store, Doubles({"none": none}), [Perplexity()], reporter, limit=8)
    assert asked == 24
    assert none.asked == 48


async def test_an_arm_that_cannot_be_served_fails_and_the_others_are_checked(tmp_path: Path) -> None:
    options, store, reporter = prepared(tmp_path, ["none", "mtp"])
    async with serving(Scorer(dead=True)) as none, serving(Scorer()) as mtp:
        outcome = await make_checks(
            options, store, Doubles({"none": none, "mtp": mtp}), [Perplexity()], reporter, limit=8
        )
    assert outcome.failures.keys() == {"none"}
    assert [result.arm for result in outcome.results] == ["mtp"]
    assert outcome.exit_code() == 1
    assert store.run().status == "partial"


def test_every_check_keeps_its_contract_and_an_unknown_one_is_refused() -> None:
    for name, one in zip(CHECKS, choose(list(CHECKS)), strict=True):
        assert one.name == name
        assert one.title
        assert one.death in ("fail", "unmeasurable")
    with pytest.raises(SpecdeckError, match="no check 'perplexty'") as error:
        choose(["perplexty"])
    assert "perplexity" in (error.value.fix or "")


def test_what_is_not_applicable_is_no_failure() -> None:
    result = check.not_applicable("acceptance", "none", "no drafter")
    assert result.details == {"not_applicable": True}
    assert result.verdict == "unmeasurable"
