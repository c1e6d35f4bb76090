"""`specdeck rules`: list the traps, explain one, check a recipe against all of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

from specdeck.errors import EXIT_FAILED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from specdeck.recipe.models import Recipe
    from specdeck.rules.evaluate import Report


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="List the known traps, explain one, check a recipe.", invoke_without_command=True)
    group.callback()(list_)
    group.command("show")(show)
    group.command("check")(check)
    group.command("docs")(docs)
    app.add_typer(group, name="rules")


def list_(context: typer.Context) -> None:
    """List all rules by area, with severity and the vLLM versions they hold for."""
    if context.invoked_subcommand is None:
        from specdeck.rules.text import listing  # noqa: PLC0415 - `--help` must not pay for it

        for line in listing():
            typer.echo(line)


def show(name: str = typer.Argument(metavar="ID", help="Id of the rule.")) -> None:
    """Explain one rule: reason, fix, versions, evidence, and the facts it needs."""
    from specdeck.rules.registry import rule_of  # noqa: PLC0415
    from specdeck.rules.text import details  # noqa: PLC0415

    for line in details(rule_of(name)):
        typer.echo(line)


def check(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: str = typer.Option(None, help="Arm to check [default: all]."),
    host: bool = typer.Option(False, "--host", help="Look at this machine's GPUs as well."),
    python: Path = typer.Option(None, help="Python that has vLLM: its packages are looked at as well."),
    as_json: bool = typer.Option(False, "--json", help="JSON."),
) -> None:
    """Check RECIPE against all rules. Exit status 1 when an arm that is not marked unavailable has an error."""
    import json  # noqa: PLC0415

    from specdeck.rules.text import finding, plain, summary  # noqa: PLC0415

    report, unavailable = report_of(recipe, [arm] if arm else None, host=host, python=python)
    if as_json:
        typer.echo(json.dumps(plain(report), indent=2, ensure_ascii=False))
    else:
        for found in report.found:
            typer.echo(finding(found))
        for line in summary(report):
            typer.echo(line)
        count = len(report.errors)
        typer.echo(
            f"{recipe}: {len(report.found)} findings, {count} of them errors; {len(report.unchecked)} not checked"
        )
    if any(set(found.arms) - unavailable for found in report.errors):
        raise typer.Exit(EXIT_FAILED)


def docs(check_only: bool = typer.Option(False, "--check", help="Write nothing; fail when it is not current.")) -> None:
    """Write docs/traps.md."""
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.rules.text import markdown, traps_file  # noqa: PLC0415

    path, text = traps_file(repo_root()), markdown()
    if check_only:
        if not path.is_file() or path.read_text("utf-8") != text:
            raise SpecdeckError(
                "docs/traps.md is not current", where="docs/traps.md", fix="specdeck rules docs", exit_code=EXIT_FAILED
            )
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    typer.echo("docs/traps.md")


def report_of(
    recipe: str, arms: Sequence[str] | None, *, host: bool, python: Path | None, changed: Recipe | None = None
) -> tuple[Report, set[str]]:
    """Check a recipe, or some arms of it. `changed`: the recipe with what the command line adds to it.

    Returns:
        The report, and the names of the arms that are marked unavailable.

    Raises:
        SpecdeckError: the recipe or a config.json cannot be read, or there is no such arm.
    """
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe.load import open_recipe  # noqa: PLC0415
    from specdeck.rules.evaluate import check_loaded  # noqa: PLC0415
    from specdeck.rules.facts import HostFacts  # noqa: PLC0415
    from specdeck.rules.gather import engine_packages, engine_version, gather, host_facts  # noqa: PLC0415

    loaded = open_recipe(recipe)
    if changed is not None:
        loaded = dataclasses.replace(loaded, model=changed)
    model = loaded.model
    for arm in arms or ():
        if arm not in model.arms:
            raise SpecdeckError(
                f"recipe {model.name} has no arm {arm!r}", where="--arm", fix=f"use one of: {', '.join(model.arms)}"
            )
    packages = engine_packages(python) if python else None
    report = check_loaded(
        loaded,
        arms=arms,
        facts=gather(model, repo_root()),
        host=host_facts(packages) if host else HostFacts(packages=packages),
        engine=engine_version(packages),
    )
    return report, {name for name, spec in model.arms.items() if spec.unavailable}


def before_start(
    recipe: str,
    arms: Sequence[str],
    *,
    python: Path | None,
    allowed: Collection[str],
    refuse_errors: bool = True,
    host: bool = True,
    changed: Recipe | None = None,
    expected: Collection[str] = (),
) -> None:
    """Tell what the rules say about arms that are about to start: warnings and notes in short, errors as a refusal.

    Args:
        recipe: recipe name or file.
        arms: the arms.
        python: the interpreter that will serve, where it is known.
        allowed: ids of rules whose errors a person has decided to live with.
        refuse_errors: whether errors end it; else they are told like warnings.
        host: whether this machine will serve, so that its GPUs count.
        changed: see report_of.
        expected: ids of rules that would tell nothing but what was asked for.

    Raises:
        SpecdeckError: an error that is not allowed.
    """
    from specdeck.rules.model import Severity  # noqa: PLC0415
    from specdeck.rules.registry import rule_of  # noqa: PLC0415
    from specdeck.rules.text import finding, refuse  # noqa: PLC0415

    for name in allowed:
        rule_of(name)
    report, _ = report_of(recipe, arms, host=host, python=python, changed=changed)
    asked = " ".join(f"--arm {arm}" for arm in arms) if len(arms) == 1 else ""
    refused = [found for found in report.errors if refuse_errors and found.rule.id not in (*allowed, *expected)]
    for found in report.found:
        if found.rule.severity is not Severity.NOTE and found not in refused and found.rule.id not in expected:
            typer.echo(finding(found), err=True)
    notes = [found.rule.id for found in report.found if found.rule.severity is Severity.NOTE]
    if notes:
        typer.echo(f"specdeck: notes: {', '.join(dict.fromkeys(notes))} (specdeck rules show ID)", err=True)
    if report.unchecked or report.newer:
        typer.echo(
            f"specdeck: {len(report.unchecked)} rules not checked, {len(report.newer)} not yet checked on a vLLM this "
            f"new (specdeck rules check {recipe} {asked}".rstrip()
            + ")",
            err=True,
        )
    refuse(refused, f"{'arm' if len(arms) == 1 else 'arms'} {', '.join(arms)} of recipe {recipe}")
