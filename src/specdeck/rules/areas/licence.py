"""Licences that restrict what may be done with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdeck.rules.model import Area, Breach, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdeck.recipe.models import Checkpoint
    from specdeck.rules.context import Context

AREA = Area("licence", "Licences")


def _checkpoints(ctx: Context) -> Iterator[tuple[str, Checkpoint]]:
    yield "target", ctx.recipe.target
    if ctx.method == "dflash" and ctx.recipe.drafter:
        yield "drafter", ctx.recipe.drafter


def _words(checkpoint: Checkpoint) -> set[str]:
    return set((checkpoint.license or "").lower().replace("_", "-").split("-"))


@AREA.rule(
    "licence-restricted",
    Severity.WARNING,
    versions=">=0",
    reason="The licence forbids commercial use or derivatives. specdeck never redistributes these weights, and neither "
    "may you.",
    fix="read the licence; for commercial use serve another arm or ask the owner",
    evidence=("incoai/GLM-5.3-Flash-DFlash2 model card (CC BY-NC-ND 4.0)", "Creative Commons BY-NC-ND 4.0"),
    stock=False,
)
def _restricted(ctx: Context) -> Iterator[Breach]:
    for role, checkpoint in _checkpoints(ctx):
        if _words(checkpoint) & {"nc", "nd"}:
            yield Breach((role, "license"), f"{checkpoint.where} is under {checkpoint.license}")


@AREA.rule(
    "licence-unstated",
    Severity.NOTE,
    versions=">=0",
    reason="The recipe does not say under which licence the weights are.",
    fix="add `license` from the model card",
    evidence=("SPDX licence list",),
    stock=False,
)
def _unstated(ctx: Context) -> Iterator[Breach]:
    for role, checkpoint in _checkpoints(ctx):
        if not checkpoint.license:
            yield Breach((role, "license"), f"the licence of {checkpoint.where} is not stated")
