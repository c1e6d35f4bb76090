"""`specdeck image check`: what it prints, and when its exit status calls for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from support.checkout import RECIPE
from support.patches import ONE, entry, series, vllm
from typer.testing import CliRunner

from specdeck.cli import image
from specdeck.errors import EXIT_FAILED, EXIT_OK, SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path

    from support.checkout import Checkout


def run(*words: str) -> Any:
    app = typer.Typer()
    image.register(app)
    result = CliRunner().invoke(app, ["image", *words])
    if isinstance(result.exception, SpecdeckError):
        raise result.exception
    return result


@pytest.fixture
def site(checkout: Checkout) -> Path:
    later = [entry()["diffs"][0] | {"releases": ["0.30.1"]}]
    series(checkout.root / "engines" / "patches", entry(), entry(id="early", since="0.30.1", diffs=later))
    return vllm(checkout.root / "site")


def test_each_patch_is_said_with_what_its_status_means(site: Path) -> None:
    result = run("check", "--vllm", str(site))
    assert result.exit_code == EXIT_OK
    assert f"vLLM 0.30.0: {site}" in result.output
    assert "a-patch: applies (every file is the expected one" in result.output
    assert "early: too early" in result.output


def test_a_drift_fails_and_shows_what_is_there(site: Path) -> None:
    vllm(site, one=ONE.replace("d = 4", "d = 44"))
    result = run("check", "--vllm", str(site))
    assert result.exit_code == EXIT_FAILED
    assert "is now:   d = 44" in result.output


def test_a_named_patch_that_does_not_apply_fails(site: Path) -> None:
    assert run("check", "--vllm", str(site), "--patch", "a-patch").exit_code == EXIT_OK
    assert run("check", "--vllm", str(site), "--patch", "early").exit_code == EXIT_FAILED
    with pytest.raises(SpecdeckError, match="no patch 'a-ptch'"):
        run("check", "--vllm", str(site), "--patch", "a-ptch")


def test_a_recipes_patches_are_looked_at_and_no_others(site: Path, checkout: Checkout) -> None:
    docker = RECIPE.replace(
        'engine: {vllm: "==0.32.0", runtime: local, environment: cpu}',
        'engine: {vllm: "==0.30.0", runtime: docker, patches: [a-patch]}',
    )
    checkout.recipe("patched", docker.replace("name: r\n", "name: patched\n"))
    checkout.recipe("plain", docker.replace("[a-patch]", "[]").replace("name: r\n", "name: plain\n"))
    result = run("check", "--vllm", str(site), "--recipe", "patched")
    assert result.exit_code == EXIT_OK
    assert "early" not in result.output
    assert "plain names no patches" in run("check", "--vllm", str(site), "--recipe", "plain").output


def test_a_source_checkout_is_taken_for_the_version_it_is_told(site: Path) -> None:
    (site / "vllm/_version.py").unlink()
    with pytest.raises(SpecdeckError, match="does not say its version"):
        run("check", "--vllm", str(site))
    assert "a-patch: applies" in run("check", "--vllm", str(site), "--as", "0.30.0.dev1").output
    with pytest.raises(SpecdeckError, match="not a version"):
        run("check", "--vllm", str(site), "--as", "main")


def test_what_is_neither_a_version_nor_a_path_is_refused_without_asking_an_index(site: Path) -> None:
    with pytest.raises(SpecdeckError, match="neither a version of vLLM nor a path"):
        run("check", "--vllm", "newest")
    with pytest.raises(SpecdeckError, match="there is no vLLM"):
        run("check", "--vllm", str(site / "nowhere"))
