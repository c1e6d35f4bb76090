"""Whether asked acceptance was realised, and which servers can change their rates instead of starting again."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specdeck.errors import SpecdeckError
from specdeck.recipe import load_recipe
from specdeck.recipe.synthetic import parse_acceptance, with_lengths, with_synthetic
from specdeck.results.schema import CounterDelta
from specdeck.run.synthetic import conditional, missed, set_rates, sibling


def counted(drafts: int, *accepted: int) -> CounterDelta:
    return CounterDelta(drafts=drafts, accepted_per_pos=accepted)


def test_counts_within_chance_are_the_asked_rates() -> None:
    assert missed((1, 0.5, 0), counted(400, 400, 215, 0)) is None
    assert missed((0.8, 0.6), counted(100, 95, 70)) is None
    assert missed((0.8,), CounterDelta()) is None
    assert missed((0.8,), counted(0, 0)) is None


def test_counts_beyond_chance_are_told_by_position() -> None:
    told = missed((0.8, 0.6), counted(10_000, 8_010, 5_000))
    assert told == "of 10000 drafts, position 2: 50.0 % instead of 60.0 %"
    assert missed((1, 0), counted(100, 90, 0)) == "of 100 drafts, position 1: 90.0 % instead of 100.0 %"
    assert missed((0.8, 0.6), counted(10, 8)) == "2 rates were asked for, the server counts 1 positions"


def test_conditional_rates_follow_from_unconditional_ones() -> None:
    assert conditional((0.8, 0.4, 0, 0)) == pytest.approx([0.8, 0.5, 0, 0])


def test_only_an_arm_that_differs_in_its_rates_alone_shares_a_server() -> None:
    recipe, names = with_lengths(load_recipe("tiny-next-cpu"), ("none", "dflash2"), {"dflash2": (3, 5)})
    recipe, names = with_synthetic(recipe, names, [parse_acceptance("2"), parse_acceptance("3")])
    assert sibling(recipe, "dflash2-3-at-3_00", ["none", "dflash2-5-at-2_00", "dflash2-3-at-2_00"]) == (
        "dflash2-3-at-2_00"
    )
    assert sibling(recipe, "dflash2-3-at-3_00", ["none", "dflash2-5-at-3_00"]) is None
    assert sibling(recipe, "none", names) is None


def answering(status: int, body: object) -> tuple[web.Application, list[object]]:
    seen: list[object] = []

    async def rpc(request: web.Request) -> web.Response:
        seen.append(await request.json())
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_post("/collective_rpc", rpc)
    return app, seen


def change(status: int, body: object) -> list[object]:
    async def go() -> list[object]:
        app, seen = answering(status, body)
        async with TestServer(app, host="127.0.0.1") as server:
            await set_rates(str(server.make_url("")).rstrip("/"), None, (0.8, 0.4))
        return seen

    return asyncio.run(go())


def test_rates_travel_as_a_json_string_and_every_worker_must_confirm_them() -> None:
    good = {"conditional_rates": [0.8, 0.5]}
    (body,) = change(200, {"results": [good, good]})
    assert isinstance(body, dict)
    assert json.loads(body["args"][0]) == [0.8, 0.4]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, {"detail": "Not Found"}),
        (200, {"results": []}),
        (200, {"results": [{"conditional_rates": [0.8, 0.5]}, {"conditional_rates": [0.8, 0.4]}]}),
        (200, {"results": [None]}),
        (200, ["odd"]),
    ],
)
def test_anything_but_the_confirmed_rates_is_an_error(status: int, body: object) -> None:
    with pytest.raises(SpecdeckError, match="could not be changed") as refused:
        change(status, body)
    assert "VLLM_SERVER_DEV_MODE" in str(refused.value)


def test_a_server_that_is_gone_is_an_error_of_its_own() -> None:
    with pytest.raises(SpecdeckError, match="could not be changed"):
        asyncio.run(set_rates("http://127.0.0.1:9", None, (0.5,)))
