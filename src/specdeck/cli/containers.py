"""`specdeck status`, `stop` and `logs`: the containers that `specdeck serve --detach` left running."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("status")(status)
    app.command("stop")(stop)
    app.command("logs")(logs)


def status() -> None:
    """Say which containers specdeck has here, how they are, and why one ended."""
    from specdeck.container.docker import connect  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.container.running import ours, state  # noqa: PLC0415

    found = ours(connect())
    for container in found:
        typer.echo("\n".join(state(container).lines()))
    if not found:
        typer.echo("specdeck has no container here")


def stop(
    name: list[str] = typer.Argument(None, help="Containers to stop [default: the only one]."),
    everything: bool = typer.Option(False, "--all", help="Stop all that specdeck has started."),
) -> None:
    """Stop and remove containers, with the secrets that were kept for them."""
    from specdeck.container.docker import connect  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.container.running import ours, pick  # noqa: PLC0415
    from specdeck.container.server import remove  # noqa: PLC0415

    client = connect()
    for container in ours(client) if everything else pick(client, name or []):
        remove(container, str(container.name))
        typer.echo(f"stopped {container.name}")


def logs(
    name: str = typer.Argument(None, help="Container [default: the only one]."),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on as lines are written, until Ctrl-C."),
    lines: int = typer.Option(200, "--lines", "-n", min=1, help="How many lines from the end."),
) -> None:
    """Print the log of a container."""
    from specdeck.container.docker import connect, refusals  # noqa: PLC0415 - `--help` must not pay for it
    from specdeck.container.running import pick  # noqa: PLC0415

    container = pick(connect(), [name] if name else [])[0]
    with refusals("the log cannot be read", where=str(container.name)):
        if follow:
            for block in container.logs(stream=True, follow=True, tail=lines):
                typer.echo(block.decode("utf-8", "replace"), nl=False)
        else:
            typer.echo(container.logs(tail=lines).decode("utf-8", "replace"), nl=False)
