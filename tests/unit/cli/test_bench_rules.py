"""`specdeck bench` asks the rules before it installs or starts anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from support.checkout import PLAN, RECIPE
from typer.testing import CliRunner

from specdeck.cli import bench
from specdeck.errors import EXIT_FAILED, SpecdeckError

if TYPE_CHECKING:
    from support.checkout import Checkout

WRONG = RECIPE.replace("serve:\n", "serve:\n  env: {VLLM_USE_V2_MODEL_RUNNER: '0'}\n")


class Started(Exception):  # noqa: N818 - not an error: the sign that a start would follow
    """Raised in place of what follows the rules."""


@pytest.fixture
def plain(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout with prompts; where an engine would be set up, or a server be asked, the test ends."""
    checkout.plan("p", PLAN.replace("[none, mtp]", "[none, dflash2]"))
    folder = checkout.root / "bench" / "prompts"
    folder.mkdir(parents=True)
    for name in ("core-10", "warmup"):
        (folder / f"{name}.jsonl").write_text(f'{{"id": "a", "category": "c", "prompt": "{name}"}}\n')

    def start(*_: Any) -> None:
        raise Started

    monkeypatch.setattr(bench, "_engine", start)
    monkeypatch.setattr(bench, "_supervised", start)
    return checkout


def run(*words: str) -> str:
    """Return what was told before a start."""
    app = typer.Typer()
    bench.register(app)
    result = CliRunner().invoke(app, [*words, "--plan", "p"])
    if isinstance(result.exception, SpecdeckError):
        raise result.exception
    assert isinstance(result.exception, Started)
    return str(result.output)


def test_an_error_of_one_arm_ends_it_before_anything_is_installed(plain: Checkout) -> None:
    plain.recipe("r", WRONG)
    with pytest.raises(SpecdeckError, match="v1-runner-refused") as caught:
        run("r")
    assert caught.value.exit_code == EXIT_FAILED
    assert "recipes/r.yml:8" in str(caught.value)
    assert "arms none, dflash2" in str(caught.value)


def test_arms_without_an_error_are_measured(plain: Checkout) -> None:
    plain.recipe("r", WRONG)
    assert "v1-runner-refused" not in run("r", "--arm", "none")


def test_an_allowed_error_is_told_and_measured(plain: Checkout) -> None:
    plain.recipe("r", WRONG)
    assert "error: " in (told := run("r", "--allow", "v1-runner-refused"))
    assert "[v1-runner-refused]" in told


def test_an_id_that_no_rule_has_is_refused_with_the_nearest(plain: Checkout) -> None:
    with pytest.raises(SpecdeckError, match="v1-runner-refused"):
        run("r", "--allow", "v1-runner-refuse")


def test_a_server_that_already_runs_is_measured_and_the_error_told(plain: Checkout) -> None:
    plain.recipe("r", WRONG)
    assert "[v1-runner-refused]" in run("r", "--base-url", "dflash2=http://127.0.0.1:9")
