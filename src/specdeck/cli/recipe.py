"""`specdeck recipe` and `specdeck schema`: list, show and check what can be served and measured."""

from __future__ import annotations

import typer

from specdeck.errors import EXIT_FAILED


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="List, show and check recipes.", no_args_is_help=True)
    group.command("list")(list_)
    group.command("show")(show)
    group.command("validate")(validate)
    app.add_typer(group, name="recipe")
    app.command("schema")(schema)


def list_() -> None:
    """List all recipes with their arms."""
    from specdeck.errors import SpecdeckError  # noqa: PLC0415 - `--help` must not pay for pydantic
    from specdeck.recipe import list_recipes, load_recipe  # noqa: PLC0415

    names = list_recipes()
    width = max(map(len, names), default=0)
    for name in names:
        try:
            recipe = load_recipe(name)
        except SpecdeckError:
            typer.echo(f"{name:{width}}  cannot be loaded: specdeck recipe validate {name}")
            continue
        arms = ", ".join(f"{arm} (unavailable)" if spec.unavailable else arm for arm, spec in recipe.arms.items())
        typer.echo(f"{name:{width}}  {recipe.title}; arms: {arms}")


def show(
    name: str = typer.Argument(help="Recipe name or file."),
    as_json: bool = typer.Option(False, "--json", help="JSON, with everything that is unset."),
    origin: bool = typer.Option(False, "--origin", help="One value a line, with the file and line it comes from."),
) -> None:
    """Print a recipe as it is once `extends` has been followed, with its hash."""
    import json  # noqa: PLC0415

    from specdeck.recipe.load import canonical_sha256, open_recipe, plain  # noqa: PLC0415
    from specdeck.recipe.show import as_yaml, origins  # noqa: PLC0415

    loaded = open_recipe(name)
    if as_json:
        typer.echo(json.dumps(plain(loaded.model), indent=2, ensure_ascii=False))
    elif origin:
        rows = list(origins(loaded))
        width = max(len(f"{key}: {value}") for key, value, _ in rows)
        for key, value, where in rows:
            typer.echo(f"{f'{key}: {value}':{min(width, 80)}}  # {where}")
    else:
        typer.echo(f"# sha256 {canonical_sha256(loaded.model)}")
        typer.echo(as_yaml(loaded.model), nl=False)


def validate(
    names: list[str] = typer.Argument(None, help="Recipe names or files [default: all recipes and plans]."),
    plan: str = typer.Option(None, help="Check too that this plan's arms exist in each recipe."),
    hashes: bool = typer.Option(False, "--hashes", help="Check pinned hashes of large local files as well."),
) -> None:
    """Check recipes (and plans), and that their local checkpoints are complete."""
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe.checks import check_plan_fits  # noqa: PLC0415
    from specdeck.recipe.files import check_files  # noqa: PLC0415
    from specdeck.recipe.load import list_plans, list_recipes, load_plan, load_recipe, open_plan  # noqa: PLC0415
    from specdeck.recipe.problems import raise_problems  # noqa: PLC0415

    failed = 0
    fitting = open_plan(plan) if plan else None
    for name in names or list_recipes():
        try:
            recipe = load_recipe(name)
            if fitting:
                raise_problems(check_plan_fits(fitting.model, recipe), fitting.document, fitting.shown)
            for role, checkpoint in (("target", recipe.target), ("drafter", recipe.drafter)):
                if checkpoint is not None:
                    check_files(checkpoint, role, repo_root(), all_hashes=hashes)
        except SpecdeckError as error:
            failed += 1
            typer.echo(f"{name}: {error}", err=True)
        else:
            typer.echo(f"{name}: good")
    for name in [] if names else list_plans():
        try:
            load_plan(name)
        except SpecdeckError as error:
            failed += 1
            typer.echo(f"{name}: {error}", err=True)
        else:
            typer.echo(f"{name}: good")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def schema(
    check: bool = typer.Option(False, "--check", help="Write nothing; fail when a file is not current."),
) -> None:
    """Write the JSON Schemas of recipes and plans, for editors."""
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe.jsonschema import schemas, stale  # noqa: PLC0415
    from specdeck.recipe.resolve import display  # noqa: PLC0415

    root = repo_root()
    if check:
        old = [display(path, root) for path in stale(root)]
        if old:
            raise SpecdeckError(
                f"not current: {', '.join(old)}", where=old[0], fix="specdeck schema", exit_code=EXIT_FAILED
            )
        return
    for path, text in schemas(root).items():
        path.write_text(text, encoding="utf-8")
        typer.echo(display(path, root))
