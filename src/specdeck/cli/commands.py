"""The commands of the command line, each imported only when it runs: `specdeck --help` and `plan` pay for no other.

The one-line helps stand here, so that a listing needs no import; a test holds them to what the commands say themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class Listed(NamedTuple):
    """Where a command is, and what the listing says of it."""

    module: str
    """A module of specdeck.cli that has `register`."""
    help: str
    """First line of the command's own help."""


COMMANDS = {
    "plan": Listed(
        "plan",
        "Say what RECIPE needs on each GPU. Downloads nothing: uses local files, else published facts (models/*.yml).",
    ),
    "rules": Listed("rules", "List the known traps, explain one, check a recipe."),
    "recipe": Listed("recipe", "List, show and check recipes."),
    "overlay": Listed(
        "overlay", "Link a checkpoint's weights beside a changed config.json, and say what changed and why."
    ),
    "fetch": Listed(
        "fetch",
        "Download what RECIPE's arms read into the Hugging Face cache, at the pinned revisions, and check the hashes.",
    ),
    "serve": Listed("serve", "Serve RECIPE until Ctrl-C. VLLM_API_KEY, when set, is required of every request."),
    "status": Listed("containers", "Say which containers specdeck has here, how they are, and why one ended."),
    "logs": Listed("containers", "Print the log of a container."),
    "stop": Listed("containers", "Stop and remove containers, with the secrets that were kept for them."),
    "compose": Listed("compose", "Write a compose file that serves RECIPE as ./start.sh does. Needs no Docker engine."),
    "bench": Listed(
        "bench", "Measure the arms of RECIPE by a plan, print the tables, and write results/measured/RUN/."
    ),
    "report": Listed(
        "report", "Write summary.json, tables, pictures, report.md and report.html of RUN and print the tables."
    ),
    "compare": Listed(
        "compare",
        "Compare CAND with BASE prompt by prompt. Exit code 0: gates pass, 1: one fails, 2: one could not be measured.",
    ),
    "baseline": Listed("baseline", "The measurement that later runs are compared with."),
    "export": Listed(
        "export",
        "Write RUN as other tools expect it: result files of `vllm bench serve`, a Prometheus textfile, or Parquet.",
    ),
    "archive": Listed(
        "query",
        "Add the cells of RUNS to the archive: Parquet by recipe and arm. A cell that is there is not added again.",
    ),
    "query": Listed(
        "query", "Ask the archive that `specdeck archive` fills, in SQL (DuckDB). Nothing can be changed by a query."
    ),
    "tune": Listed(
        "tune",
        "Predict output tok/s at every draft length, mark what was measured, and name the best for each concurrency.",
    ),
    "quality": Listed(
        "quality",
        "Check thoroughly that every arm of RECIPE is still the same model. Results: RUN/quality/CHECK-ARM.json.",
    ),
    "smoke": Listed(
        "quality", "Check in minutes that every arm of RECIPE is still the same model; `specdeck quality` looks closer."
    ),
    "image": Listed("image", "Patches of vLLM, and images that carry them."),
    "engine": Listed("engine", "The managed engine environment (vLLM's CPU build)."),
    "tables": Listed(
        "tables", "Fill every generated table of README and docs. Exit code 1 with --check when one has drifted."
    ),
    "schema": Listed("recipe", "Write the JSON Schemas of recipes and plans, for editors."),
}


class CommandsOnDemand(TyperGroup):
    """A group that knows its commands by name and one-line help, and imports the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, listed in COMMANDS.items():
            self.add_command(TyperCommand(name, help=listed.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that `args` begins with, then find it as usual."""
        if args and args[0] in COMMANDS:
            self.add_command(load(args[0]))
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """Import a command or group of commands.

    Raises:
        KeyError: no such command, or its module does not register it.
    """
    alone = typer.Typer(rich_markup_mode=None)
    import_module(f"specdeck.cli.{COMMANDS[name].module}").register(alone)
    return get_group(alone).commands[name]
