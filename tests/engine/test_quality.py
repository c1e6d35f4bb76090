"""Quality checks on real servers: sound ones pass, and each kind of damage is found and named."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from support.damage import corrupt_tensor, move_tap
from support.proxy import loop, proxied, swap_cached, truncate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from support.live import Live

pytestmark = pytest.mark.long
in_session_loop = pytest.mark.asyncio(loop_scope="session")
ARMS = ("none", "mtp", "dflash2")


async def specdeck(*words: str) -> tuple[int, str]:
    """Run the command line and return its exit status and everything it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "specdeck", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()  # an interrupted test must not leave its servers behind
    assert process.returncode is not None
    return process.returncode, output.decode()


async def checked(live: Callable[[str], Awaitable[Live]], results: Path, *words: str) -> tuple[int, str]:
    """Check all three arms on the servers that the tests share."""
    urls: list[str] = []
    for arm in ARMS:
        urls += ["--base-url", f"{arm}={(await live(arm)).server.base_url}"]
    return await specdeck("quality", "tiny-next-cpu", "--results", str(results), *urls, *words)


def told(results: Path, check: str, arm: str) -> dict[str, Any]:
    """The one result of that check and arm."""
    (path,) = results.glob(f"*/quality/{check}-{arm}.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def scramble(root: Path, out: Path) -> None:
    """A drafter whose codebooks are shuffled."""
    drafter = root / "models" / "tiny-next" / "drafter"
    command = [sys.executable, str(root / "tools" / "scramble_codebooks.py"), str(drafter), str(out)]
    subprocess.run(command, check=True, timeout=120)


def variant(folder: Path, **changes: Any) -> str:
    """A recipe like tiny-next-cpu with some keys changed."""
    path = folder / "variant.yml"
    lines = ["extends: tiny-next-cpu", "name: variant", "title: A variant"]
    path.write_text("\n".join([*lines, *(f"{key}: {json.dumps(value)}" for key, value in changes.items())]) + "\n")
    return str(path)


@in_session_loop
async def test_sound_arms_pass_perplexity_and_acceptance(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    status, output = await checked(live, tmp_path, "--check", "perplexity", "--check", "acceptance")
    assert status == 0, output
    for arm in ARMS:
        result = told(tmp_path, "perplexity", arm)
        assert result["verdict"] == "pass"
        assert result["interval"][0] < result["value"] < result["interval"][1]
    assert told(tmp_path, "acceptance", "none")["details"]["not_applicable"] is True
    assert "Traceback" not in output


@in_session_loop
@pytest.mark.parametrize("kind", ["scrambled codebooks", "a wrong tap", "a corrupted tensor"])
async def test_damage_is_found_and_named(root: Path, python: Path, tmp_path: Path, kind: str) -> None:
    del python  # the environment is there
    broken, models = tmp_path / "broken", root / "models" / "tiny-next"
    if kind == "scrambled codebooks":
        scramble(root, broken)
    elif kind == "a wrong tap":
        move_tap(models / "drafter", broken, [0, 1, 2])
    else:
        corrupt_tensor(models / "target", broken, "model.layers.1.mlp.gate.weight")
    part = "target" if kind == "a corrupted tensor" else "drafter"
    arm = "none" if part == "target" else "dflash2"
    recipe = variant(tmp_path, **{part: {"path": str(broken), "license": "apache-2.0"}})
    checks = ["--check", "perplexity", "--check", "acceptance"]
    status, output = await specdeck("quality", recipe, "--arm", arm, "--results", str(tmp_path / "results"), *checks)
    assert status == 1, output
    perplexity = told(tmp_path / "results", "perplexity", arm)
    if part == "target":
        assert perplexity["verdict"] == "fail"
        assert "recorded for this checkpoint" in perplexity["reason"]
    else:
        assert perplexity["verdict"] == "pass"  # a drafter changes no score of the target
        acceptance = told(tmp_path / "results", "acceptance", arm)
        assert acceptance["verdict"] == "fail"
        assert "the drafter does not fit the target" in acceptance["reason"]


@in_session_loop
@pytest.mark.parametrize("kind", ["truncates", "loops"])
async def test_a_proxy_that_spoils_answers_is_found_by_the_divergence_census(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path, kind: str
) -> None:
    none = (await live("none")).server.base_url
    async with proxied(none, truncate if kind == "truncates" else loop) as spoiled:
        status, output = await specdeck(
            *("quality", "tiny-next-cpu", "--results", str(tmp_path), "--check", "divergence", "--limit", "9"),
            *("--base-url", f"none={none}", "--base-url", f"spoiled={spoiled}"),
        )
    assert status == 1, output
    assert told(tmp_path, "divergence", "none")["verdict"] == "pass"
    result = told(tmp_path, "divergence", "spoiled")
    assert result["verdict"] == "fail"
    assert result["value"] < 0.5
    assert ("end in a loop" in result["reason"]) == (kind == "loops")


@in_session_loop
async def test_a_proxy_that_swaps_cached_answers_is_found_by_the_shared_prefix_probe(
    live: Callable[[str], Awaitable[Live]], tmp_path: Path
) -> None:
    none = (await live("none")).server.base_url
    async with proxied(none, swap_cached()) as spoiled:
        status, output = await specdeck(
            *("quality", "tiny-next-cpu", "--results", str(tmp_path), "--check", "shared_prefix", "--limit", "4"),
            *("--base-url", f"spoiled={spoiled}"),
        )
    assert status == 1, output
    result = told(tmp_path, "shared_prefix", "spoiled")
    assert result["verdict"] == "fail"
    assert "what the prefix cache holds is not what was computed" in result["reason"]
