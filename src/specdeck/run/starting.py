"""How the server of an arm is started: a program on this machine, or a container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.engine.command import build_command
from specdeck.engine.local import start_local
from specdeck.engine.ports import free_port
from specdeck.engine.runtime import Server  # noqa: TC001 - dataclasses read annotations
from specdeck.errors import SpecdeckError
from specdeck.overlay.dummy import dummy_folders
from specdeck.overlay.recipes import folders_for
from specdeck.recipe.synthetic import is_synthetic

if TYPE_CHECKING:
    from specdeck.container.launch import Asked
    from specdeck.run.options import Options

Say = Callable[[str], None]


@dataclass(frozen=True)
class Started:
    """A server that has proved nothing yet, with the command and the variables that started it; no secrets."""

    server: Server
    argv: tuple[str, ...]
    env: Mapping[str, str]


Start = Callable[[str, Path, Say], Awaitable[Started]]
"""Starts an arm with a log file, on a free loopback port; raises SpecdeckError where it cannot."""


def programs(options: Options, python: Path) -> Start:
    """Return what starts arms with an interpreter that has vLLM."""
    recipe = options.recipe
    assert recipe is not None

    async def start(arm: str, log_path: Path, say: Say) -> Started:
        port = free_port()
        if options.dummy_weights:
            folders = dummy_folders(recipe, arm, options.root)
        else:
            folders = folders_for(recipe, arm, options.root, say)
        command = build_command(
            recipe, arm, python=python, host="127.0.0.1", port=port, root=options.root, folders=folders
        )
        say(f"starting vLLM on port {port}")
        return Started(await start_local(command, log_path, port=port), command.argv, command.env)

    return start


def containers(options: Options, asked: Asked, say: Say) -> Start:
    """Return what starts arms in containers, once engine and image are known to be there and right.

    Raises:
        SpecdeckError: no engine answers, the image is not here or not the recipe's, or acceptance is asked for.
    """
    from specdeck.container.docker import connect, find_image  # noqa: PLC0415 - most runs need no engine
    from specdeck.container.launch import check_image, prepare  # noqa: PLC0415
    from specdeck.container.preflight import preflight  # noqa: PLC0415
    from specdeck.container.secrets import forget  # noqa: PLC0415
    from specdeck.container.server import start_container  # noqa: PLC0415

    recipe, root = options.recipe, options.root.absolute()
    assert recipe is not None
    if is_synthetic(recipe, options.arms):
        raise SpecdeckError(
            "an asked acceptance needs a program inside the server that images do not hold",
            where="--synthetic-acceptance with a container",
            fix="name a vLLM of this machine: --runtime local --python /path/to/environment/bin/python",
        )
    begun: list[Server] = []
    client = connect()
    image = find_image(client, asked.options(recipe, host="127.0.0.1", port=1).image)
    check_image(image, recipe, root, force=asked.force, say=say)

    async def start(arm: str, log_path: Path, tell: Say) -> Started:
        port = free_port()
        folders = folders_for(recipe, arm, root, tell)
        spec = prepare(recipe, arm, asked, image=image, host="127.0.0.1", port=port, root=root, folders=folders)
        try:
            if all(server.exit_status() is not None for server in begun):  # else the GPUs are in use by this run
                preflight(client, image, recipe, arm, spec, root=root, force=asked.force, say=tell)
            tell(f"starting the container {spec.name}")
            server = await asyncio.to_thread(start_container, client, spec, log_path, api_key=asked.api_key())
        except BaseException:
            forget(spec.name)
            raise
        begun.append(server)
        return Started(server, spec.argv, spec.env)

    return start
