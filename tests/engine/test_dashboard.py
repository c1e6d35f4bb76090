"""The dashboard's series on a real server that drafts: a wrong name would only show an empty panel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from specdeck.paths import repo_root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from support.live import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_series_of_the_dashboard_is_exposed_with_the_labels_it_asks_for(
    live: Callable[[str], Awaitable[Live]],
) -> None:
    server = await live("dflash2")
    await server.chat("What is 2 plus 3?", max_tokens=16)
    exposed = await server.metrics()
    text = (repo_root() / "dashboards" / "spec-decode.json").read_text()
    for name in sorted(set(re.findall(r"vllm:[a-z_]+", text))):
        assert re.search(rf'^{name}{{[^}}]*model_name="', exposed, re.MULTILINE), name
    assert re.search(r'^vllm:spec_decode_num_accepted_tokens_per_pos_total{[^}]*position="0"', exposed, re.MULTILINE)
