"""What a command imports is what its start costs: held here by name, since a time depends on the machine."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand
from typer.main import get_group

import specdeck.cli
from specdeck.cli.commands import COMMANDS, load

RECIPE = "qwen3.8-27b-nvfp4-unsloth-2x5090-512k"
# Each of these takes longer to import than planning does, or talks to something that planning does not need.
HEAVY = {"aiohttp", "asyncio", "docker", "matplotlib", "msgspec", "numpy", "pandas", "requests", "rich", "scipy", "ssl"}


def imported(*arguments: str) -> set[str]:
    """Run a command line in a fresh interpreter and return the names of all modules that it imported."""
    code = "import sys; from specdeck.cli import main; main(); print('\\n', *sys.modules, sep='\\n')"
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(specdeck.cli.__file__).parents[3],
    )
    assert not ran.stderr, ran.stderr
    return set(ran.stdout.rpartition("\n\n")[2].split())


def test_the_listing_says_of_each_command_what_the_command_says_itself() -> None:
    for name, listed in COMMANDS.items():
        assert load(name).get_short_help_str(200) == TyperCommand(name, help=listed.help).get_short_help_str(200)


def test_the_listing_has_every_command_that_a_module_registers() -> None:
    registered = set()
    for module in pkgutil.iter_modules(specdeck.cli.__path__, "specdeck.cli."):
        if register := getattr(import_module(module.name), "register", None):
            register(app := typer.Typer(rich_markup_mode=None))
            registered |= set(get_group(app).commands)
    assert registered == set(COMMANDS)


def test_help_imports_no_command_and_nothing_heavy() -> None:
    modules = imported("--help")
    assert {name for name in modules if name.startswith("specdeck.")} == {
        "specdeck.cli",
        "specdeck.cli.commands",
        "specdeck.cli.main",
        "specdeck.errors",
    }
    assert not modules & (HEAVY | {"pydantic", "yaml"})


@pytest.mark.parametrize("arguments", [("plan", RECIPE), ("plan", RECIPE, "--json"), ("recipe", "show", RECIPE)])
def test_loading_and_planning_a_recipe_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = imported(*arguments)
    assert "specdeck.recipe.load" in modules, "the command ran"
    assert not modules & HEAVY


def test_planning_imports_no_part_of_specdeck_that_serves_or_measures() -> None:
    allowed = {"checkpoint", "cli", "errors", "paths", "planner", "recipe"}
    parts = {name.split(".")[1] for name in imported("plan", RECIPE) if name.startswith("specdeck.")}
    assert parts <= allowed
