"""One real vLLM CPU server for each arm of tiny-next-cpu, started when a test first asks and shared by all of them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio
from support.live import Live

from specdeck.engine.command import build_command
from specdeck.engine.environment import engine_python
from specdeck.engine.local import start_local
from specdeck.engine.ports import free_port
from specdeck.engine.readiness import Expectation, prove_ready
from specdeck.paths import repo_root
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from specdeck.recipe import Recipe

ARMS = ("none", "mtp", "dflash2")
RECIPE = "tiny-next-cpu"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here starts an engine and takes its time."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def root() -> Path:
    return repo_root()


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe(RECIPE)


@pytest.fixture(scope="session")
def python(recipe: Recipe, root: Path) -> Path:
    return engine_python(recipe, root, python=None, progress=print)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def live(
    recipe: Recipe, root: Path, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Callable[[str], Awaitable[Live]]]:
    """Return a function from an arm's name to its running server."""
    running: dict[str, Live] = {}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def get(arm: str) -> Live:
            if arm not in running:
                port = free_port()
                command = build_command(recipe, arm, python=python, host="127.0.0.1", port=port, root=root)
                log = tmp_path_factory.mktemp(arm) / "server.log"
                server = await start_local(command, log, port=port)
                stack.push_async_callback(server.stop)
                expectation = Expectation.of(recipe, arm, root=root)
                proof = await prove_ready(server, expectation, timeout_s=420, progress=print)
                running[arm] = Live(arm, server, proof, session)
            return running[arm]

        yield get
