"""What must hold between the fields of a recipe, and between a plan and a recipe. Pure; one Problem for each breach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from specdeck.recipe.models import Arm, Recipe, Serve
from specdeck.recipe.problems import Problem
from specdeck.recipe.resolve import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.recipe.plan import Plan
    from specdeck.recipe.yamlfile import KeyPath

ARM_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
OPTION = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(r"(^|_)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
LONGEST_PATH, LONGEST_NAME = 2048, 255
# Set by specdeck itself, so a recipe must not set them a second time.
OWNED = {
    "model": "target",
    "model_tag": "target",
    "revision": "target.revision",
    "speculative_config": "arms",
    "host": "the --host option of `specdeck serve`",
    "port": "the --port option of `specdeck serve`",
    "uds": "the --port option of `specdeck serve`",
    "api_key": "the environment variable VLLM_API_KEY",
    "hf_token": "the environment variable HF_TOKEN",
}
OWNED_SPECULATIVE = {
    "method": "method",
    "num_speculative_tokens": "num_speculative_tokens",
    "draft_sample_method": "draft_sample_method",
    "model": "drafter",
    "revision": "drafter.revision",
}


def check_recipe(recipe: Recipe) -> list[Problem]:
    """Return everything about a well-formed recipe that cannot work."""
    return [
        *_checkpoint(recipe, "target"),
        *_checkpoint(recipe, "drafter"),
        *_engine(recipe),
        *_hardware(recipe),
        *_serve(recipe.serve, ("serve",)),
        *_arms(recipe),
        *_references(recipe),
        *_texts(recipe.model_dump(mode="json"), ()),
    ]


def check_plan(plan: Plan) -> list[Problem]:
    """Return what is contradictory within a plan."""
    found = []
    for key in ("arms", "concurrency"):
        values = getattr(plan, key)
        if len(set(values)) != len(values):
            found.append(Problem((key,), "an entry appears twice", "list each one once"))
    if plan.cell_timeout_s < plan.request_timeout_s:
        found.append(
            Problem(
                ("cell_timeout_s",),
                "a cell may take less time than one of its requests",
                f"write at least {plan.request_timeout_s:g}",
            )
        )
    found += _load(plan)
    if plan.enable_thinking is not None and plan.endpoint != "chat":
        found.append(
            Problem(
                ("enable_thinking",),
                "the completions endpoint applies no chat template that it could reach",
                "remove it, or write endpoint: chat",
            )
        )
    if plan.goodput is not None and not plan.goodput.model_dump(exclude_none=True):
        found.append(Problem(("goodput",), "it sets no limit", "set ttft, tpot or e2el in milliseconds"))
    return found


def _load(plan: Plan) -> Iterator[Problem]:
    """A load has one shape."""
    shapes = [key for key in ("request_rate", "stages", "trace", "ramp_up_s") if getattr(plan, key) is not None]
    if len(shapes) > 1:
        yield Problem((shapes[1],), f"the load has a shape already: {shapes[0]}", "keep one of them")
    for number, stage in enumerate(plan.stages or ()):
        if (stage.requests is None) == (stage.duration_s is None):
            yield Problem(("stages", number), "a stage has one budget", "write either requests or duration_s")
    if plan.multi_turn and plan.endpoint != "chat":
        yield Problem(("multi_turn",), "the completions endpoint has no turns", "write endpoint: chat")
    if plan.multi_turn and (plan.request_rate or plan.stages or plan.trace):
        yield Problem(("multi_turn",), "a turn is due when the last one is answered", "remove the open loop's keys")
    work = plan.workload
    if work is not None and work.groups > 1 and work.kind != "shared_prefix":
        yield Problem(("workload", "groups"), f"{work.kind} has no groups", "remove it, or write kind: shared_prefix")
    if work is not None and work.with_drafters and work.kind != "random":
        yield Problem(("workload", "with_drafters"), f"{work.kind} needs no leave for drafters", "remove it")
    if plan.repeat_prompts and not (plan.stages or plan.trace):
        yield Problem(
            ("repeat_prompts",), "without stages or a trace each prompt is sent once", "remove it, or add stages"
        )


def check_plan_fits(plan: Plan, recipe: Recipe) -> list[Problem]:
    """Return the arms of a plan that a recipe does not have."""
    return [
        Problem(
            ("arms", index),
            f"recipe {recipe.name} has no arm {name!r}",
            f"use {_or(nearest(name, recipe.arms) or list(recipe.arms))}",
        )
        for index, name in enumerate(plan.arms)
        if name not in recipe.arms
    ]


def _checkpoint(recipe: Recipe, key: str) -> Iterator[Problem]:
    checkpoint = getattr(recipe, key)
    if checkpoint is None:
        return
    if (checkpoint.repo is None) == (checkpoint.path is None):
        yield Problem((key,), "needs either `repo` or `path`, and not both", "name a repository or a local folder")
    if checkpoint.path is not None and checkpoint.path.startswith(("-", "~")):
        yield Problem((key, "path"), f"{checkpoint.path!r} is not a plain path", "write it without a leading - or ~")
    if checkpoint.path is not None and not usable_path(checkpoint.path):
        yield Problem((key, "path"), "is longer than a path can be", "write the path of a folder")
    if checkpoint.sha256 and checkpoint.path is None:
        yield Problem((key, "sha256"), "hashes are checked for local folders only", "pin the repository by `revision`")
    for name in checkpoint.sha256:
        if "/" in name or name.startswith("."):
            yield Problem((key, "sha256", name), "is not the name of a file in the folder", "write the bare file name")


def _engine(recipe: Recipe) -> Iterator[Problem]:
    engine = recipe.engine
    try:
        SpecifierSet(engine.vllm)
    except InvalidSpecifier:
        yield Problem(
            ("engine", "vllm"), f"{engine.vllm!r} is not a version specifier", 'write for example ">=0.32,<0.33"'
        )
    if recipe.hardware.device == "cpu" and engine.runtime == "local" and engine.environment is None:
        yield Problem(
            ("engine", "environment"), "a CPU recipe needs an environment to run in", "add `environment: cpu`"
        )
    if engine.environment == "cpu" and recipe.hardware.device != "cpu":
        yield Problem(
            ("engine", "environment"), "the cpu environment has no CUDA build of vLLM", "remove `environment`"
        )
    if engine.runtime == "local" and engine.patches:
        yield Problem(
            ("engine", "patches"), "the local runtime serves vLLM as it is installed", "use `runtime: docker`"
        )


def _hardware(recipe: Recipe) -> Iterator[Problem]:
    hardware, serve = recipe.hardware, recipe.serve
    if hardware.device == "cuda" and hardware.gpus == 0:
        yield Problem(("hardware", "gpus"), "a CUDA recipe needs at least one GPU", "add `gpus: 1`")
    if hardware.device == "cpu" and hardware.gpus:
        yield Problem(("hardware", "gpus"), "a CPU recipe uses no GPU", "remove `gpus`")
    if hardware.nodes > 1 and hardware.link != "network":
        yield Problem(("hardware", "nodes"), "several machines reach each other by network", "add `link: network`")
    if hardware.device == "cuda" and hardware.gpus % hardware.nodes:
        yield Problem(
            ("hardware", "gpus"),
            f"{hardware.gpus} GPUs cannot be spread evenly over {hardware.nodes} nodes",
            f"write a multiple of {hardware.nodes}",
        )
    needed = (serve.tensor_parallel_size or 1) * (serve.pipeline_parallel_size or 1)
    if hardware.device == "cuda" and hardware.gpus and needed > hardware.gpus:
        yield Problem(
            ("serve", "tensor_parallel_size"),
            f"needs {needed} GPUs, the hardware class has {hardware.gpus}",
            f"write tensor_parallel_size: {hardware.gpus}",
        )


def _serve(serve: Serve, path: KeyPath) -> Iterator[Problem]:
    if serve.chat_template is not None and not usable_path(serve.chat_template):
        yield Problem((*path, "chat_template"), "is longer than a path can be", "write the path of a file")
    for name in serve.env:
        here = (*path, "env", name)
        if not VARIABLE.fullmatch(name):
            yield Problem(here, "is not the name of an environment variable", "use letters, digits and underscores")
        elif SECRET.search(name):
            yield Problem(here, "a recipe holds no secrets", f"export {name} in the shell that starts specdeck")
    for name, value in serve.extra.items():
        here = (*path, "extra", name)
        option = name.replace("-", "_")
        if not OPTION.fullmatch(name):
            yield Problem(
                here, "is not the name of an option", "write vLLM's spelling, such as max_num_partial_prefills"
            )
        elif option in OWNED:
            yield Problem(here, "is set by specdeck", f"use {OWNED[option]}")
        elif option in Serve.model_fields:
            yield Problem(here, "has a key of its own", f"write it as {'.'.join(str(p) for p in path)}.{option}")
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            yield Problem(
                here, "a list of values may hold only text and numbers", "write a mapping: it is passed as JSON"
            )


def _arms(recipe: Recipe) -> Iterator[Problem]:
    if not recipe.arms:
        yield Problem(("arms",), "a recipe needs at least one arm", "add `none: {}`")
    for name, arm in recipe.arms.items():
        path: KeyPath = ("arms", name)
        if not ARM_NAME.fullmatch(name):
            yield Problem(path, f"{name!r} cannot be the name of an arm", "use lower-case letters, digits, - and _")
        yield from _arm(recipe, arm, path)
        yield from _serve(arm.serve, (*path, "serve"))


def _arm(recipe: Recipe, arm: Arm, path: KeyPath) -> Iterator[Problem]:
    drafting: list[tuple[str, Any]] = [
        (key, getattr(arm, key)) for key in ("num_speculative_tokens", "draft_sample_method", "speculative")
    ]
    if arm.method is None:
        for key, value in drafting:
            if value:
                yield Problem((*path, key), "an arm that drafts must say how", "add `method: mtp` or `method: dflash`")
        return
    if arm.num_speculative_tokens is None:
        yield Problem(
            (*path, "num_speculative_tokens"),
            f"method {arm.method} needs the number of drafted tokens",
            "add it, at least 1",
        )
    if arm.method == "dflash" and recipe.drafter is None:
        yield Problem((*path, "method"), "dflash needs a drafter checkpoint", "add `drafter: {repo: …}` to the recipe")
    for key in arm.speculative:
        if key in OWNED_SPECULATIVE:
            yield Problem((*path, "speculative", key), "has a key of its own", f"use {OWNED_SPECULATIVE[key]}")


def _references(recipe: Recipe) -> Iterator[Problem]:
    for name, expected in recipe.expect.acceptance_length.items():
        path: KeyPath = ("expect", "acceptance_length", name)
        if name not in recipe.arms:
            yield Problem(
                path, f"there is no arm {name!r}", f"use {_or(nearest(name, recipe.arms) or list(recipe.arms))}"
            )
        if expected.min is not None and expected.max is not None and expected.min > expected.max:
            yield Problem((*path, "min"), "is greater than max", "exchange the two")
    plain = recipe.model_dump(mode="json")
    for key in recipe.sources:
        value: Any = plain
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            yield Problem(("sources", key), f"the recipe has no value at {key!r}", "name a key that the recipe sets")


def usable_path(text: str) -> bool:
    """Whether the operating system could open a path of this length."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw) <= LONGEST_PATH and all(len(part) <= LONGEST_NAME for part in raw.split(b"/"))


def _texts(value: Any, path: KeyPath) -> Iterator[Problem]:
    """Find texts that no command line, environment or file name can hold."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key, path)
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif isinstance(value, str) and "\0" in value:
        yield Problem(path, "holds a NUL character", "remove it")


def _or(words: list[str]) -> str:
    return " or ".join(words)
