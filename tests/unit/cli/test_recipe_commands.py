"""`specdeck recipe …` and `specdeck schema`, through the real command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from support.checkout import PLAN, RECIPE
from typer.testing import CliRunner

from specdeck.cli import recipe
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from support.checkout import Checkout


def run(*words: str) -> Any:
    app = typer.Typer()
    recipe.register(app)
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, SpecdeckError):
        raise result.exception
    return result


def test_list_names_every_recipe_with_its_arms_and_marks_what_cannot_be_served(checkout: Checkout) -> None:
    checkout.recipe("broken", "name: broken\n")
    checkout.recipe(
        "old", RECIPE.replace("name: r", "name: old").replace("tokens: 7}", "tokens: 7, unavailable: not here}")
    )
    lines = run("recipe", "list").output.splitlines()
    assert lines[0] == "broken  cannot be loaded: specdeck recipe validate broken"
    assert lines[1] == "old     a recipe; arms: none, mtp, dflash2 (unavailable)"
    assert lines[2].startswith("r ")


def test_show_prints_yaml_that_loads_with_its_hash(checkout: Checkout) -> None:
    del checkout
    output = run("recipe", "show", "r").output
    assert output.startswith("# sha256 ")
    assert yaml.safe_load(output)["serve"] == {"max_model_len": 2048}


def test_show_prints_json_and_origins_on_request(checkout: Checkout) -> None:
    del checkout
    assert json.loads(run("recipe", "show", "r", "--json").output)["arms"]["mtp"]["num_speculative_tokens"] == 3
    assert "serve.max_model_len: 2048" in run("recipe", "show", "r", "--origin").output
    assert "# recipes/r.yml:8" in run("recipe", "show", "r", "--origin").output


def test_validate_reports_every_bad_file_and_fails(checkout: Checkout) -> None:
    assert run("recipe", "validate").exit_code == 0
    checkout.recipe("broken", "name: broken\n")
    checkout.plan("p", PLAN.replace("[1, 4]", "[0]"))
    (checkout.root / "models" / "drafter" / "config.json").unlink()
    result = run("recipe", "validate")
    assert result.exit_code == 1
    for words in ("broken: error", "p: error", "r: error: the drafter checkpoint has no config.json"):
        assert words in result.output
    assert result.output.count("Fix:") == 3


def test_validate_checks_a_plan_against_a_recipe(checkout: Checkout) -> None:
    checkout.plan("p", PLAN.replace("mtp", "mpt"))
    result = run("recipe", "validate", "r", "--plan", "p")
    assert result.exit_code == 1
    assert "no arm 'mpt'" in result.output
    assert "bench/plans/p.yml:3" in result.output


def test_schema_writes_both_files_and_check_notices_a_stale_one(checkout: Checkout) -> None:
    with pytest.raises(
        SpecdeckError, match=r"not current: recipes/recipe\.schema\.json, bench/plans/plan\.schema\.json"
    ):
        run("schema", "--check")
    assert run("schema").exit_code == 0
    assert run("schema", "--check").exit_code == 0
    path = checkout.root / "bench" / "plans" / "plan.schema.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(SpecdeckError) as caught:
        run("schema", "--check")
    assert (caught.value.exit_code, caught.value.fix) == (1, "specdeck schema")
