"""`specdeck serve`: serve one arm of a recipe, in the foreground or in a container that stays."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specdeck.container.launch import Asked
    from specdeck.engine.runtime import Server
    from specdeck.recipe import Recipe

RUNTIMES = ("docker", "local")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("serve")(serve)


def serve(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: str = typer.Option(None, help="Arm to serve [default: the one with DFlash, else MTP, else the first]."),
    port: int = typer.Option(8000, min=1, max=65535, help="Port to listen on."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the exact command and environment, and start nothing."
    ),
    python: Path = typer.Option(None, help="Python that has vLLM; means runtime local."),
    runtime: str = typer.Option(None, help="Override the recipe's runtime: docker or local."),
    allow: list[str] = typer.Option(None, metavar="ID", help="Start although this rule finds an error. Repeatable."),
    detach: bool = typer.Option(False, "--detach", help="Container: leave it running once it is ready."),
    image: str = typer.Option(None, help="Container: image with vLLM [default: the recipe's engine.image]."),
    gpus: str = typer.Option(None, help="Container: GPUs by index or UUID, comma-separated [default: the first ones]."),
    shm_size: str = typer.Option(None, help="Container: private shared memory such as 16g, instead of the host's."),
    restart: str = typer.Option("no", help="Container: restart policy, no or unless-stopped (with --detach)."),
    api_key_file: Path = typer.Option(None, help="Container: file with the API key that requests must carry."),
    hf_token_file: Path = typer.Option(None, help="Container: file with a Hugging Face token."),
    force: bool = typer.Option(
        False, "--force", help="Container: start although a GPU is in use or the image is not the recipe's."
    ),
) -> None:
    """Serve RECIPE until Ctrl-C. VLLM_API_KEY, when set, is required of every request."""
    from specdeck.cli.rules import before_start  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.container.launch import Asked  # noqa: PLC0415
    from specdeck.engine.command import known_arm  # noqa: PLC0415
    from specdeck.engine.environment import named_python  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root()
    asked = Asked(image, gpus, shm_size, restart, api_key_file, hf_token_file, force=force)
    loaded = with_runtime(load_recipe(recipe), runtime, python, asked, detach=detach)
    chosen = arm or default_arm(loaded)
    known_arm(loaded, chosen)
    contained = loaded.engine.runtime == "docker"
    named = None if contained else named_python(root, python)
    before_start(recipe, [chosen], python=named, allowed=allow or [], refuse_errors=not dry_run)
    if contained:
        raise typer.Exit(_contained(loaded, chosen, asked, host, port, root, detach=detach, dry_run=dry_run))
    raise typer.Exit(_local(loaded, chosen, named, host, port, root, dry_run=dry_run))


def _local(recipe: Recipe, arm: str, python: Path | None, host: str, port: int, root: Path, *, dry_run: bool) -> int:
    from specdeck.engine.claims import Expectation  # noqa: PLC0415
    from specdeck.engine.command import build_command  # noqa: PLC0415
    from specdeck.engine.environment import engine_python  # noqa: PLC0415
    from specdeck.engine.foreground import serve_foreground  # noqa: PLC0415
    from specdeck.engine.local import start_local  # noqa: PLC0415
    from specdeck.engine.ports import require_free  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415

    api_key = bool(os.environ.get("VLLM_API_KEY"))
    # Built once before anything is installed, so that mistakes are told at once.
    folders = folders_for(recipe, arm, root, _aside if dry_run else _say, dry=dry_run)
    command = build_command(
        recipe, arm, python=python, host=host, port=port, root=root, folders=folders, api_key=api_key
    )
    if dry_run:
        typer.echo(command.shell())
        return 0
    require_free(host, port)
    expectation = Expectation.of(recipe, arm, root=root)
    interpreter = engine_python(recipe, root, python=python, progress=_say)
    command = build_command(
        recipe, arm, python=interpreter, host=host, port=port, root=root, folders=folders, api_key=api_key
    )
    log = _log_file(recipe, arm, port, root)
    _say(command.shell())
    _warn_open(host, keyed=api_key)

    async def start() -> Server:
        return await start_local(command, log, port=port)

    return asyncio.run(serve_foreground(start, expectation, timeout_s=recipe.engine.ready_timeout_s, say=_say))


def _contained(
    recipe: Recipe, arm: str, asked: Asked, host: str, port: int, root: Path, *, detach: bool, dry_run: bool
) -> int:
    from specdeck.container.launch import check_image, prepare  # noqa: PLC0415
    from specdeck.container.shell import run_command  # noqa: PLC0415
    from specdeck.container.spec import render  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415

    root = root.absolute()
    options = asked.options(recipe, host=host, port=port)
    if dry_run:
        folders = folders_for(recipe, arm, root, _aside, dry=True)
        typer.echo(run_command(render(recipe, arm, options, root=root, folders=folders)))
        return 0
    from specdeck.container.docker import connect, find_image  # noqa: PLC0415
    from specdeck.container.preflight import preflight  # noqa: PLC0415
    from specdeck.container.secrets import forget  # noqa: PLC0415
    from specdeck.container.server import ContainerServer, start_container  # noqa: PLC0415
    from specdeck.engine.claims import Expectation  # noqa: PLC0415
    from specdeck.engine.foreground import serve_foreground  # noqa: PLC0415

    client = connect()
    found = find_image(client, options.image)
    check_image(found, recipe, root, force=asked.force, say=_say)
    expectation = Expectation.of(recipe, arm, root=root)
    folders = folders_for(recipe, arm, root, _say)
    spec = render(recipe, arm, options, root=root, folders=folders)
    preflight(client, found, recipe, arm, spec, root=root, force=asked.force, say=_say)
    spec = prepare(recipe, arm, asked, image=found, host=host, port=port, root=root, folders=folders)
    log = _log_file(recipe, arm, port, root)
    _say(run_command(spec))
    _warn_open(host, keyed=bool(asked.api_key()))

    async def start() -> Server:
        return await asyncio.to_thread(start_container, client, spec, log, api_key=asked.api_key())

    async def leave(server: Server) -> str:
        assert isinstance(server, ContainerServer)
        await server.detach()
        return f"specdeck stop {spec.name} (specdeck logs, specdeck status)"

    try:
        return asyncio.run(
            serve_foreground(
                start,
                expectation,
                timeout_s=recipe.engine.ready_timeout_s,
                say=_say,
                detach=leave if detach else None,
            )
        )
    except BaseException:
        forget(spec.name)  # nothing was started, or it has been removed
        raise


def default_arm(recipe: Recipe) -> str:
    """Return the arm to serve when none is named: the one with DFlash, else MTP, else the first."""
    available = {name: arm for name, arm in recipe.arms.items() if not arm.unavailable}
    for method in ("dflash", "mtp"):
        for name, arm in available.items():
            if arm.method == method:
                return name
    return next(iter(available or recipe.arms))


def with_runtime(recipe: Recipe, runtime: str | None, python: Path | None, asked: Asked, *, detach: bool) -> Recipe:
    """Return the recipe with the runtime that the command line asks for.

    Raises:
        SpecdeckError: there is no such runtime, or an option belongs to the other one.
    """
    from specdeck.container.launch import Asked  # noqa: PLC0415
    from specdeck.errors import SpecdeckError  # noqa: PLC0415

    if runtime is not None and runtime not in RUNTIMES:
        raise SpecdeckError(
            f"there is no runtime {runtime!r}", where="--runtime", fix="--runtime docker, --runtime local, or none"
        )
    if runtime == "docker" and python is not None:
        raise SpecdeckError(
            "a container has a Python of its own", where="--python", fix="leave out --python, or --runtime docker"
        )
    chosen = runtime or ("local" if python or "SPECDECK_ENGINE_PYTHON" in os.environ else recipe.engine.runtime)
    if chosen == "local" and (detach or asked != Asked()):
        raise SpecdeckError(
            "the local runtime serves in the foreground, as the user who starts it",
            where="--runtime local",
            fix="leave out --detach, --image and the other options for containers, or add --runtime docker",
        )
    if asked.restart != "no" and not detach:
        raise SpecdeckError(
            "a server in the foreground is stopped with its terminal and does not restart",
            where="--restart",
            fix="add --detach, or leave out --restart",
        )
    return recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"runtime": chosen})})


def _log_file(recipe: Recipe, arm: str, port: int, root: Path) -> Path:
    log = root / ".cache" / "serve" / f"{recipe.name}-{arm}-{port}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    return log


def _warn_open(host: str, *, keyed: bool) -> None:
    if host not in ("127.0.0.1", "::1", "localhost") and not keyed:
        _say("specdeck: anyone who reaches this machine can use the server; export VLLM_API_KEY to ask for a key")


def _aside(text: str) -> None:
    """Say it beside the command, which is all that a dry run prints."""
    typer.echo(f"specdeck: {text}", err=True)


def _say(text: str) -> None:
    typer.echo(text)
