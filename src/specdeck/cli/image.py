"""`specdeck image`: patches of vLLM and the images that carry them."""

from __future__ import annotations

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(help="Patches of vLLM, and images that carry them.", no_args_is_help=True)
    group.command("check")(check)
    group.command("build")(build)
    app.add_typer(group, name="image")


def check(
    vllm: str = typer.Option(
        None,
        help="A release such as 0.32.0 (its wheel is fetched), a wheel, a folder or a virtual environment "
        "[default: .venv-engine].",
    ),
    recipe: str = typer.Option(None, help="Recipe whose patches must apply."),
    patch: list[str] = typer.Option([], help="Patch that must apply; may be repeated."),
    as_version: str = typer.Option(None, "--as", help="Version to take a source checkout for."),
) -> None:
    """Say of each patch whether it applies to a vLLM, vLLM has it already, or its code drifted.

    Exit status 1 when vLLM moved in a way that the series does not know, or a patch that must apply does not.
    """
    from specdeck.errors import EXIT_FAILED, SpecdeckError  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.image.check import MEANS, examine  # noqa: PLC0415
    from specdeck.image.series import load_series, public_version  # noqa: PLC0415
    from specdeck.image.tree import fetch_wheel, open_tree, version_of  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root()
    series = load_series(root / "engines" / "patches")
    wanted = [*(load_recipe(recipe).engine.patches if recipe else ()), *patch]
    entries = series.in_order(wanted) if recipe or patch else list(series.entries)
    named = vllm or str(root / ".venv-engine")
    path = Path(named).expanduser()
    tree = open_tree(
        path if path.exists() or vllm is None or "/" in named else fetch_wheel(named, root / ".cache/wheels")
    )
    version = public_version(as_version) if as_version else version_of(tree)
    if version is None:
        raise SpecdeckError("this vLLM does not say its version", where=tree.shown, fix="name it: --as 0.32.0")
    typer.echo(f"vLLM {version}: {tree.shown}")
    failed = False
    for found in examine(series, tree, version, entries):
        failed |= found.alarm or (bool(wanted) and found.status != "applies")
        typer.echo(f"  {found.id}: {found.status} ({MEANS[found.status]})")
        for line in found.lines:
            typer.echo(f"    {line}")
    if not entries:
        typer.echo(f"  {recipe or 'the series'} names no patches")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def build(
    recipe: str = typer.Argument(help="Recipe name or file."),
    runtime: str = typer.Option(None, help="cpu or cuda [default: the recipe's device]."),
    base: str = typer.Option(None, help="Base image [default: the recipe's engine.image; for cpu a Python one]."),
    vllm: str = typer.Option(None, help="Release to install where the base has no vLLM, or that the base must have."),
    cuda_archs: str = typer.Option("", help="Architectures to compile FlashInfer's top-k for, such as '8.6 9.0a'."),
    tag: str = typer.Option(None, help="Name of the image [default: specdeck/RECIPE:VLLM-HASH]."),
    source: str = typer.Option(None, metavar="URL", help="Build vLLM from this repository; needs --commit and --vllm."),
    commit: str = typer.Option("", metavar="HASH", help="Commit to build, 40 hex digits."),
    pull: list[str] = typer.Option([], metavar="NUMBER@HEAD", help="Pull request to merge; may be repeated, in order."),
    build_requirements: str = typer.Option("", help="Requirements file of the source for its build."),
    network: bool = typer.Option(True, help="Whether steps of the build may use the network."),
) -> None:
    """Build the image that RECIPE asks for: vLLM, its patches, each with its proof, and the manifest that says so."""
    from specdeck.image.build import Source, request  # noqa: PLC0415
    from specdeck.image.build import build as build_image  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.image.docker_cli import find_docker  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    asked = request(
        load_recipe(recipe),
        runtime=runtime,
        base=base,
        vllm=vllm,
        cuda_archs=cuda_archs,
        tag=tag,
        network=network,
        source=Source(source, commit, tuple(pull), build_requirements) if source else None,
    )
    built = build_image(asked, repo_root().absolute(), find_docker(), typer.echo)
    names = ", ".join(patch.id for patch in built.manifest.patches) or "none"
    typer.echo(f"{built.tag}: vLLM {built.manifest.vllm}, patches: {names}")
    typer.echo(built.image_id)
