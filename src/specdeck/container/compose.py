"""Writes a container as a compose file. Docker Compose 1.28 and later read it, the 1.29 of Debian included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from specdeck.container.spec import ContainerSpec

STOP_GRACE_S = 30


def compose_file(spec: ContainerSpec) -> str:
    """Return the compose file of one server."""
    service: dict[str, Any] = {
        "image": spec.image,
        "container_name": spec.name,
        "entrypoint": list(spec.argv),
        "command": [],
        "environment": dict(spec.env),
        "ports": [f"{_address(spec.host)}:{spec.port}:8000"],
        "volumes": [
            {"type": "bind", "source": mount.source, "target": mount.target, "read_only": mount.read_only}
            for mount in spec.mounts
        ],
        "labels": dict(spec.labels),
        "healthcheck": {
            "test": ["CMD", *spec.health],
            "interval": "10s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{spec.start_period_s}s",
        },
        "init": True,
        "restart": spec.restart,
        "stop_grace_period": f"{STOP_GRACE_S}s",
        **({"shm_size": spec.shm_size} if spec.shm_size else {"ipc": "host"}),
    }
    if spec.user:
        service["user"] = spec.user
    if spec.gpus:
        device = {"driver": "nvidia", "device_ids": list(spec.gpus), "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    whole: dict[str, Any] = {"services": {"vllm": service}}
    if spec.secrets:
        service["secrets"] = list(spec.secrets)
        whole["secrets"] = {name: {"file": path} for name, path in spec.secrets.items()}
    return yaml.safe_dump(_escaped(whole), sort_keys=False, width=120)


def _address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _escaped(value: Any) -> Any:
    """Double every dollar sign: compose would otherwise put its own variables there."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
