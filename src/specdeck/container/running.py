"""Containers that specdeck has started and that are still there, running or ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.container.docker import refusals
from specdeck.container.server import status_of
from specdeck.engine.logs import advice, first_error
from specdeck.errors import SpecdeckError
from specdeck.rules.symptoms import known_trap

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "io.specdeck.recipe"
READ_LINES = 20_000


@dataclass(frozen=True)
class State:
    """One container, as `specdeck status` tells it.

    Attributes:
        state: Docker's word, with the health check's: `running (healthy)`.
        restarts: how often Docker has restarted it.
        error: why it ended, where its log says so.
    """

    name: str
    recipe: str
    arm: str
    image: str
    state: str
    url: str
    gpus: str
    restarts: int
    error: str | None

    def lines(self) -> list[str]:
        """Return what is printed."""
        words = [f"{self.name}: {self.state}", f"recipe {self.recipe}, arm {self.arm}", self.url]
        words += [f"GPUs {self.gpus}"] if self.gpus else []
        words += [f"restarted {self.restarts} times: its counters and its warm-up are gone"] if self.restarts else []
        return [", ".join(words), f"  image {self.image}", *(f"  {line}" for line in (self.error or "").splitlines())]


def ours(client: DockerClient) -> list[Container]:
    """Return all containers that specdeck made, by name."""
    with refusals("containers cannot be listed", where="docker ps"):
        found = client.containers.list(all=True, filters={"label": LABEL})
    return sorted(found, key=lambda container: container.name or "")


def pick(client: DockerClient, names: list[str]) -> list[Container]:
    """Return the containers of these names; without names the only one there is.

    Raises:
        SpecdeckError: there is none, there are several to choose from, or none of that name.
    """
    found = ours(client)
    known = {str(container.name): container for container in found}
    unknown = [name for name in names if name not in known]
    if unknown or not found or (not names and len(found) > 1):
        what = (
            f"specdeck started no container {unknown[0]!r}"
            if unknown
            else "specdeck has several containers here"
            if found
            else "specdeck has no container here"
        )
        raise SpecdeckError(
            what,
            where="docker",
            fix=f"name one of: {', '.join(known)}" if known else "./start.sh RECIPE --detach starts one",
        )
    return [known[name] for name in names] if names else found


def state(container: Container) -> State:
    """Look at one container; of an ended one the log is read for the first error."""
    with refusals("the container cannot be looked at", where=str(container.name)):
        container.reload()
        facts = container.attrs["State"]
        labels = container.labels
        word = str(facts["Status"])
        error = None
        if word == "running":
            health = (facts.get("Health") or {}).get("Status")
            word += f" ({health})" if health else ""
        elif word in ("exited", "dead"):
            code = int(facts["ExitCode"])
            word += f" (status {code}" + (", out of memory)" if facts.get("OOMKilled") else ")")
            error = _error(container, code) if code not in (0, 143) else None
    return State(
        name=str(container.name),
        recipe=labels.get(LABEL, "?"),
        arm=labels.get("io.specdeck.arm", "?"),
        image=str(container.attrs["Config"]["Image"]),
        state=word,
        url=f"http://{labels.get('io.specdeck.host', '127.0.0.1')}:{labels.get('io.specdeck.port', '?')}",
        gpus=labels.get("io.specdeck.gpus", ""),
        restarts=int(container.attrs.get("RestartCount") or 0),
        error=error,
    )


def _error(container: Container, code: int) -> str | None:
    lines = container.logs(tail=READ_LINES).decode("utf-8", "replace").splitlines()
    cause = first_error(lines)
    fix = advice(cause, status_of(code))
    told = [f"first error: {cause}{known_trap(cause)}"] if cause else []
    return "\n".join([*told, *([f"Fix: {fix}"] if fix else [])]) or None
