"""The proof tells the arms apart on real servers, and a server that is something else is refused with the reason."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from specdeck.engine.command import build_command
from specdeck.engine.local import start_local
from specdeck.engine.ports import free_port, require_free
from specdeck.engine.readiness import Expectation, prove_ready
from specdeck.errors import SpecdeckError
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

    from specdeck.engine.runtime import Server
    from specdeck.recipe import Recipe


pytestmark = pytest.mark.asyncio(loop_scope="session")


class Kept:
    """The same server, which a failed proof must not stop: other tests use it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def stop(self, *, now: bool = False) -> None:
        """Leave it running."""


@pytest.mark.parametrize(("arm", "method", "n"), [("none", None, None), ("mtp", "mtp", 3), ("dflash2", "dflash", 7)])
async def test_each_arm_proves_its_method_and_draft_length(
    live: Callable[[str], Awaitable[Live]], arm: str, method: str | None, n: int | None
) -> None:
    proof = (await live(arm)).proof
    assert (proof["method"], proof["num_speculative_tokens"]) == (method, n)
    assert proof["vllm_version"] == "0.32.0"
    assert {claim["status"] for claim in proof["claims"]} == {"passed"}


async def test_dflash2_proves_its_architecture_and_the_taps_plus_one(
    live: Callable[[str], Awaitable[Live]], root: Path
) -> None:
    proof = (await live("dflash2")).proof
    config = json.loads((root / "models/tiny-next/drafter/config.json").read_text())
    assert proof["drafter_architecture"] == "DFlash2DraftModel"
    assert list(proof["aux_layer_ids"]) == [tap + 1 for tap in config["dflash_config"]["target_layer_ids"]]


@pytest.mark.parametrize(
    ("served", "claimed", "word"),
    [("mtp", "dflash2", "mtp"), ("none", "mtp", "draft"), ("dflash2", "none", "draft")],
)
async def test_a_server_that_is_another_arm_is_refused(
    live: Callable[[str], Awaitable[Live]], recipe: Recipe, root: Path, served: str, claimed: str, word: str
) -> None:
    server = await live(served)
    expectation = Expectation.of(recipe, claimed, root=root)
    with pytest.raises(SpecdeckError, match=word) as caught:
        await prove_ready(Kept(server.server), expectation, timeout_s=60, progress=print)
    assert caught.value.exit_code == 1
    assert caught.value.fix


async def test_another_draft_length_is_refused(
    live: Callable[[str], Awaitable[Live]], recipe: Recipe, root: Path
) -> None:
    server = await live("dflash2")
    wrong = dataclasses.replace(Expectation.of(recipe, "dflash2", root=root), num_speculative_tokens=5)
    with pytest.raises(SpecdeckError, match=r"5.*7|7.*5"):
        await prove_ready(Kept(server.server), wrong, timeout_s=60, progress=print)


async def test_a_taken_port_is_refused_by_the_name_of_its_owner(live: Callable[[str], Awaitable[Live]]) -> None:
    server = await live("none")
    port = int(server.server.base_url.rpartition(":")[2])
    with pytest.raises(SpecdeckError) as caught:
        require_free("127.0.0.1", port)
    assert str(server.server.pid) in str(caught.value)


async def test_a_checkpoint_with_torn_weights_ends_with_the_cause_and_the_log(
    recipe: Recipe, root: Path, python: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    shutil.copytree(root / "models/tiny-next/target", target)
    weights = target / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    text = {"extends": "tiny-next-cpu", "name": "torn", "title": "torn", "target": {"path": str(target)}}
    (tmp_path / "torn.yml").write_text(yaml.safe_dump(text))
    torn = load_recipe(str(tmp_path / "torn.yml"))
    port = free_port()
    command = build_command(torn, "none", python=python, host="127.0.0.1", port=port, root=root)
    server = await start_local(command, tmp_path / "server.log", port=port)
    with pytest.raises(SpecdeckError) as caught:
        await prove_ready(server, Expectation.of(torn, "none", root=root), timeout_s=300, progress=print)
    assert caught.value.fix
    assert "safetensors" in str(caught.value).lower()
    require_free("127.0.0.1", port)
