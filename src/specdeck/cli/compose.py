"""`specdeck compose`: write a compose file that starts one arm of a recipe in a container."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations

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
    from specdeck.cli.rules import before_start  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.cli.serve import default_arm  # noqa: PLC0415
    from specdeck.container.compose import compose_file  # noqa: PLC0415
    from specdeck.container.launch import Asked, make_folders  # noqa: PLC0415
    from specdeck.container.spec import render  # noqa: PLC0415
    from specdeck.engine.command import known_arm  # noqa: PLC0415
    from specdeck.overlay.recipes import folders_for  # noqa: PLC0415
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.recipe import load_recipe  # noqa: PLC0415

    root = repo_root().absolute()
    loaded = load_recipe(recipe)
    chosen = arm or default_arm(loaded)
    known_arm(loaded, chosen)
    # The file may be for another machine: this one's GPUs say nothing about it.
    before_start(recipe, [chosen], python=None, allowed=allow, host=False)
    asked = Asked(image, gpus, shm_size, restart, api_key_file, hf_token_file)
    options = asked.options(loaded, host=host, port=port)
    folders = folders_for(loaded, chosen, root, lambda text: typer.echo(text, err=True))
    spec = render(loaded, chosen, options, root=root, folders=folders)
    make_folders(spec)
    text = compose_file(spec)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"docker-compose -f {output} up")
