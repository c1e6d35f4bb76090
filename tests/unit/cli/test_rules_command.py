"""`specdeck rules …`, and what the rules do to a start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from support.checkout import RECIPE
from typer.testing import CliRunner

from specdeck.cli import rules, serve
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.paths import repo_root
from specdeck.rules.registry import all_rules
from specdeck.rules.text import markdown, traps_file

if TYPE_CHECKING:
    from support.checkout import Checkout

WRONG = RECIPE.replace("serve:\n", "serve:\n  env: {VLLM_USE_V2_MODEL_RUNNER: '0'}\n  max_num_seqs: 4\n")


def run(*words: str) -> Any:
    app = typer.Typer()
    rules.register(app)
    serve.register(app)
    result = CliRunner().invoke(app, list(words))
    if isinstance(result.exception, SpecdeckError):
        raise result.exception
    return result


def test_the_list_names_every_rule_with_its_severity() -> None:
    output = run("rules").output
    assert all(f"  {rule.id} " in output for rule in all_rules())


def test_one_rule_is_explained_with_fix_versions_and_evidence() -> None:
    output = run("rules", "show", "qsa-ring-capacity").output
    assert all(word in output for word in ("error", "Fix:", ">=0.29", "vllm#54552", "target.indexer_compress_ratio"))


def test_an_error_is_told_with_file_and_line_and_ends_with_status_1(checkout: Checkout) -> None:
    checkout.recipe("r", WRONG)
    result = run("rules", "check", "r")
    assert result.exit_code == EXIT_FAILED
    assert "forces the V1 runner [v1-runner-refused] (arm dflash2)\n  at: recipes/r.yml:8" in result.output
    assert "not checked" in result.output
    assert run("rules", "check", "r", "--arm", "none").exit_code == 0


def test_an_error_of_an_unavailable_arm_is_told_and_fails_nothing(checkout: Checkout) -> None:
    checkout.recipe("r", WRONG.replace("tokens: 7}", "tokens: 7, unavailable: not here}"))
    result = run("rules", "check", "r", "--json")
    assert result.exit_code == 0
    found = {item["rule"]: item for item in json.loads(result.stdout)["findings"]}
    assert found["v1-runner-refused"]["arms"] == ["dflash2"]


def test_a_start_is_refused_on_an_error_and_says_all_of_it(checkout: Checkout) -> None:
    checkout.recipe("r", WRONG.replace("max_model_len: 2048", "max_model_len: 2048\n  extra: {load_format: dummy}"))
    with pytest.raises(SpecdeckError) as caught:
        run("serve", "r", "--arm", "dflash2")
    text = str(caught.value)
    assert all(word in text for word in ("v1-runner-refused", "dummy-weights", "recipes/r.yml:", "Fix: "))


def test_a_dry_run_tells_the_error_and_prints_the_command(checkout: Checkout) -> None:
    checkout.recipe("r", WRONG)
    result = run("serve", "r", "--arm", "dflash2", "--dry-run")
    assert result.exit_code == 0
    assert "v1-runner-refused" in result.stderr
    assert "--speculative-config" in result.stdout


def test_an_allowed_rule_no_longer_refuses_and_a_mistyped_one_is_told(checkout: Checkout) -> None:
    checkout.recipe("r", WRONG)
    rules.before_start("r", ["dflash2"], python=None, allowed=["v1-runner-refused"])
    with pytest.raises(SpecdeckError, match="v1-runner-refuse"):
        rules.before_start("r", ["dflash2"], python=None, allowed=["v1-runner-refuse"])


def test_the_list_of_traps_in_docs_is_current_and_an_old_one_is_refused(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecdeckError, match="not current"):
        run("rules", "docs", "--check")
    run("rules", "docs")
    assert run("rules", "docs", "--check").exit_code == 0
    monkeypatch.delenv("SPECDECK_ROOT")
    assert traps_file(repo_root()).read_text("utf-8") == markdown()
