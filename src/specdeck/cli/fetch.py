"""`specdeck fetch`: download the checkpoints of a recipe."""

from __future__ import annotations

import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("fetch")(fetch)


def fetch(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: list[str] = typer.Option([], help="Only what this arm reads (repeatable) [default: all that can be served]."),
    verify: bool = typer.Option(False, "--verify", help="Hash files that are there already, too."),
) -> None:
    """Download what RECIPE's arms read into the Hugging Face cache, at the pinned revisions, and check the hashes.

    An interrupted download goes on when the same command is given again. HF_TOKEN is used where it is set.
    """
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415 - `--help` must not pay for it

    from specdeck.checkpoint.fetch import fetch as download  # noqa: PLC0415
    from specdeck.checkpoint.folder import hub_cache  # noqa: PLC0415
    from specdeck.engine.command import known_arm  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415
    from specdeck.recipe.files import check_files  # noqa: PLC0415

    loaded = load_recipe(recipe)
    arms = arm or [name for name, spec in loaded.arms.items() if not spec.unavailable]
    drafting = [name for name in arms if known_arm(loaded, name).method == "dflash"]
    if not sys.stderr.isatty():
        disable_progress_bars()
    cache = hub_cache().absolute()
    for role, checkpoint in (("target", loaded.target), ("drafter", loaded.drafter if drafting else None)):
        if checkpoint is None:
            continue
        if checkpoint.repo is None:
            check_files(checkpoint, role, repo_root(), all_hashes=verify)
            typer.echo(f"{checkpoint.where}: a local folder, complete")
            continue
        typer.echo(f"{checkpoint.repo}: {role}, licence {checkpoint.license or 'not stated'}")
        download(checkpoint, cache=cache, verify=verify, say=typer.echo)
