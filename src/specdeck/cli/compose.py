"""`specdeck compose`: write a compose file that starts one arm of a recipe in a container."""

from __future__ import annotations

import os
from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("compose")(compose)


def compose(
    recipe: str = typer.Argument(help="Recipe name or file."),
    arm: str = typer.Option(None, help="Arm to serve [default: the one with DFlash, else MTP, else the first]."),
    image: str = typer.Option(None, help="Image with vLLM [default: the recipe's engine.image]."),
    gpus: str = typer.Option(None, help="GPUs by index or UUID, comma-separated [default: the first ones]."),
    port: int = typer.Option(8000, min=1, max=65535, help="Port to publish."),
    host: str = typer.Option("127.0.0.1", help="Address to publish it on."),
    shm_size: str = typer.Option(None, help="Private shared memory such as 16g, instead of the host's (ipc: host)."),
    restart: str = typer.Option("no", help="Restart policy: no or unless-stopped."),
    api_key_file: Path = typer.Option(None, help="File with the API key that requests must carry."),
    hf_token_file: Path = typer.Option(None, help="File with a Hugging Face token."),
    output: Path | None = typer.Option(None, "--output", "-o", help="File to write [default: standard output]."),
    allow: list[str] = typer.Option([], metavar="ID", help="Write it although this rule finds an error. Repeatable."),
) -> None:
    """Write a compose file that serves RECIPE as ./start.sh does. Needs no Docker engine."""
    from specdeck.checkpoint.folder import hub_cache  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.cli.rules import before_start  # noqa: PLC0415
    from specdeck.cli.serve import default_arm  # noqa: PLC0415
    from specdeck.container.compose import compose_file  # noqa: PLC0415
    from specdeck.container.spec import Options, render  # noqa: PLC0415
    from specdeck.engine.command import known_arm  # noqa: PLC0415
    from specdeck.errors import SpecdeckError  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root().absolute()
    loaded = load_recipe(recipe)
    chosen = arm or default_arm(loaded)
    known_arm(loaded, chosen)
    # The file may be for another machine: this one's GPUs say nothing about it.
    before_start(recipe, [chosen], python=None, allowed=allow, host=False)
    reference = image or loaded.engine.image
    if reference is None:
        raise SpecdeckError(
            f"recipe {loaded.name} names no image", where="engine.image", fix="name one that has vLLM with --image"
        )
    if restart not in ("no", "unless-stopped"):
        raise SpecdeckError(f"no such restart policy: {restart}", where="--restart", fix="no or unless-stopped")
    for path in (api_key_file, hf_token_file):
        if path is not None and not path.is_file():
            raise SpecdeckError("there is no such file", where=str(path), fix="write the secret into it, mode 0600")
    options = Options(
        image=reference,
        gpus=tuple(word.strip() for word in gpus.split(",")) if gpus else (),
        host=host,
        port=port,
        shm_size=shm_size,
        user=f"{os.getuid()}:{os.getgid()}",
        restart=restart,
        hub=hub_cache().absolute(),
        api_key_file=api_key_file,
        hf_token_file=hf_token_file,
    )
    folders = folders_for(loaded, chosen, root, lambda text: typer.echo(text, err=True))
    spec = render(loaded, chosen, options, root=root, folders=folders)
    for mount in spec.mounts:
        if not mount.read_only:
            # Made here: Docker would make a missing folder as root, and the server could not write to it.
            Path(mount.source).mkdir(parents=True, exist_ok=True)
    text = compose_file(spec)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"docker-compose -f {output} up")
