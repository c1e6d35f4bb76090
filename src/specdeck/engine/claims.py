"""Whether a server is the arm it is said to be: what was expected against what log, counters and answers show. Pure.

A claim that no evidence can settle is `not_checked`, never `passed`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from specdeck.errors import SpecdeckError
from specdeck.recipe.files import checkpoint_folder
from specdeck.recipe.resolve import display

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from specdeck.engine.logfacts import LogFacts
    from specdeck.recipe.models import Recipe
    from specdeck.telemetry.counters import Snapshot

# The last release where the V1 runner takes a DFlash2 drafter and drafts as the older DFlash (vllm#52816).
_SILENT_V1 = SpecifierSet("<0.29")


@dataclass(frozen=True)
class Expectation:
    """What an arm claims to be. None: unknown here, so it cannot be checked.

    Attributes:
        drafter_architecture: from the drafter's config.json, where it is a local folder.
        aux_layer_ids: the drafter's taps plus one: vLLM numbers a layer's output by the layer that reads it.
        vllm: PEP 440 specifier.
    """

    arm: str
    method: str | None
    num_speculative_tokens: int | None
    drafter_architecture: str | None = None
    aux_layer_ids: tuple[int, ...] | None = None
    vllm: str | None = None
    log_lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe, arm_name: str, *, root: Path, folders: Mapping[str, Path] | None = None) -> Expectation:
        """Derive the expectation from a recipe's arm and its drafter's config.json.

        Raises:
            SpecdeckError: that config.json is not what a drafter's is.
        """
        arm = recipe.arms[arm_name]
        architecture, aux = None, None
        if arm.method == "dflash" and recipe.drafter is not None:
            folder = (folders or {}).get("drafter") or checkpoint_folder(recipe.drafter, root)
            if folder is not None:
                architecture, aux = _drafter(folder / "config.json", root)
        return cls(
            arm=arm_name,
            method=arm.method,
            num_speculative_tokens=arm.num_speculative_tokens,
            drafter_architecture=architecture,
            aux_layer_ids=aux,
            vllm=recipe.engine.vllm,
            log_lines=recipe.expect.log_lines,
        )


@dataclass(frozen=True)
class Evidence:
    """Everything that was seen. `log` is None where the log is not ours to read."""

    log: LogFacts | None
    log_text: str
    model: str
    models: tuple[str, ...]
    version: str | None
    before: Snapshot
    after: Snapshot
    payload: dict[str, Any] | None
    completion_tokens: int


@dataclass(frozen=True)
class Claim:
    """One claim and what became of it."""

    claim: str
    status: Literal["passed", "failed", "not_checked"]
    detail: str


def check(expected: Expectation | None, seen: Evidence) -> list[Claim]:
    """Hold every claim against the evidence."""
    claims = list(_model(seen))
    if expected is None:
        return claims
    claims += _version(expected, seen)
    claims += _drafting(expected, seen) if expected.method else _no_drafting(seen)
    text = seen.log_text
    for line in expected.log_lines:
        if seen.log is None:
            claims.append(Claim(f"log says {line!r}", "not_checked", "the log is not ours to read"))
        else:
            claims.append(_claim(f"log says {line!r}", line in text, "found", "not in the log"))
    return claims


def _model(seen: Evidence) -> Iterator[Claim]:
    yield _claim(
        "model",
        seen.model in seen.models,
        f"{seen.model} is served",
        f"the server serves {', '.join(seen.models)}, not {seen.model}",
    )


def _version(expected: Expectation, seen: Evidence) -> Iterator[Claim]:
    if expected.vllm is None:
        return
    version = seen.version or (seen.log.version if seen.log else None)
    try:
        fits = version is not None and SpecifierSet(expected.vllm).contains(Version(version), prereleases=True)
    except InvalidVersion:
        version = None
    if version is None:
        yield Claim("vllm version", "not_checked", "the server names no version")
        return
    yield _claim(
        "vllm version",
        fits,
        f"{version} fits {expected.vllm}",
        f"the server runs vLLM {version}, the recipe is for {expected.vllm}",
    )


def _no_drafting(seen: Evidence) -> Iterator[Claim]:
    if seen.log is not None and seen.log.engine_started:
        method = seen.log.method
        yield _claim("method", method is None, "no drafter, says the log", f"the server drafts with {method!r}")
    drafts = seen.after.drafts
    yield _claim(
        "drafts",
        drafts is None,
        "no draft counters on /metrics",
        f"an arm without a drafter, yet /metrics counts drafts ({drafts} so far)",
    )


def _drafting(expected: Expectation, seen: Evidence) -> Iterator[Claim]:
    yield _method(expected, seen)
    yield _architecture(expected, seen)
    yield from _num_speculative_tokens(expected, seen)
    if expected.method == "dflash":
        yield _aux_layers(expected, seen)
        yield from _runner(expected, seen)
    before, after = seen.before.drafts or 0, seen.after.drafts
    yield _claim(
        "drafts",
        after is not None and after > before,
        f"{(after or 0) - before} drafts during the probe of {seen.completion_tokens} tokens",
        "the server has no draft counters: it does not draft"
        if after is None
        else f"the server answered {seen.completion_tokens} tokens without counting a draft",
    )


def _method(expected: Expectation, seen: Evidence) -> Claim:
    if seen.log is None or not seen.log.engine_started:
        return Claim("method", "not_checked", "only the server's log names the method")
    method = seen.log.method
    same = method == expected.method or (expected.method == "mtp" and (method or "").endswith("_mtp"))
    return _claim(
        "method",
        same,
        f"{method}, says the log",
        f"the server drafts with {method or 'nothing'}, not {expected.method}",
    )


def _architecture(expected: Expectation, seen: Evidence) -> Claim:
    if seen.log is None or not seen.log.architectures:
        return Claim("drafter architecture", "not_checked", "only the server's log names it")
    found = seen.log.drafter_architecture
    if expected.drafter_architecture is not None:
        wanted, same = expected.drafter_architecture, found == expected.drafter_architecture
    else:
        wanted = {"dflash": "a DFlash drafter", "mtp": "an MTP layer"}[expected.method or ""]
        same = found is not None and {"dflash": "dflash", "mtp": "mtp"}[expected.method or ""] in found.lower()
    return _claim(
        "drafter architecture",
        same,
        f"{found}, says the log",
        f"the drafter is {found or 'not loaded'}, expected {wanted}",
    )


def _num_speculative_tokens(expected: Expectation, seen: Evidence) -> Iterator[Claim]:
    n = expected.num_speculative_tokens
    witnesses = {
        "log": seen.log.num_speculative_tokens if seen.log else None,
        "metrics": len(seen.after.accepted_per_pos) if seen.after.accepted_per_pos else None,
        "answer": (seen.payload or {}).get("num_spec_tokens"),
    }
    for name, value in witnesses.items():
        claim = f"num_speculative_tokens ({name})"
        if value is None:
            yield Claim(claim, "not_checked", f"{name}: not shown")
        else:
            yield _claim(claim, value == n, str(value), f"the server drafts {value} tokens a step, the arm says {n}")


def _aux_layers(expected: Expectation, seen: Evidence) -> Claim:
    name = "auxiliary layers"
    if expected.aux_layer_ids is None:
        return Claim(name, "not_checked", "the drafter's config.json is not on this machine")
    if seen.log is None or seen.log.aux_layer_ids is None:
        return Claim(name, "not_checked", "only the server's log names them")
    return _claim(
        name,
        seen.log.aux_layer_ids == expected.aux_layer_ids,
        f"{seen.log.aux_layer_ids}, says the log",
        f"the drafter reads layers {seen.log.aux_layer_ids}, its config says {expected.aux_layer_ids} (taps + 1)",
    )


def _runner(expected: Expectation, seen: Evidence) -> Iterator[Claim]:
    if seen.log is None or not seen.log.version or "DFlash2" not in (expected.drafter_architecture or ""):
        return
    try:
        silent = SpecifierSet(str(_SILENT_V1)).contains(Version(seen.log.version), prereleases=True)
    except InvalidVersion:
        return
    if silent or seen.log.v2_runner:
        yield _claim(
            "model runner",
            seen.log.v2_runner,
            "V2, says the log",
            "the V1 model runner of this vLLM drafts as DFlash, without DFlash2's candidate selection",
        )


def _claim(claim: str, holds: bool, good: str, bad: str) -> Claim:
    return Claim(claim, "passed", good) if holds else Claim(claim, "failed", bad)


def _drafter(path: Path, root: Path) -> tuple[str, tuple[int, ...]]:
    shown = display(path, root)
    try:
        config = json.loads(path.read_bytes())
        architecture = config["architectures"][0]
        taps = config["dflash_config"]["target_layer_ids"]
        aux = tuple(int(tap) + 1 for tap in taps)
    except OSError as error:
        raise SpecdeckError(
            f"the drafter's config cannot be read: {error.strerror}", where=shown, fix="restore the drafter checkpoint"
        ) from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise SpecdeckError(
            "this is not a DFlash drafter's config: it needs `architectures` and `dflash_config.target_layer_ids`",
            where=shown,
            fix="point `drafter` of the recipe at a DFlash or DFlash2 checkpoint",
        ) from None
    return str(architecture), aux
