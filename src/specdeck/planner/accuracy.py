"""How good the planner is: its pools beside those of results/reference/pools.yml. Makes the tables of docs/planner.md.

Uses published facts alone (models/*.yml), never files of this machine, so that the tables are the same everywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, ValidationError

from specdeck.checkpoint import CheckpointFacts, published_facts
from specdeck.errors import SpecdeckError
from specdeck.planner.memory import GIB
from specdeck.planner.plan import ArmPlan, Pool, plan_arm
from specdeck.recipe.models import Arm, Checkpoint, Engine, Hardware, Part, Positive, Recipe, Serve
from specdeck.recipe.problems import from_validation, raise_problems
from specdeck.recipe.resolve import display, resolve_file

if TYPE_CHECKING:
    from pathlib import Path

POOLS = "results/reference/pools.yml"
GOAL = 0.10
_Text = Annotated[str, StringConstraints(min_length=3)]
_Repo = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
_Gib = Annotated[float, Field(gt=0, le=4096)]


class PublishedPool(Part):
    """One configuration and the pool its engine reported."""

    title: _Text
    source: _Text
    hardware: Hardware
    target: _Repo
    target_weight_bytes: Positive | None = None
    """Where the checkpoint is another of the same shape: its published size."""
    drafter: _Repo | None = None
    drafter_weight_bytes: Positive | None = None
    """Where the drafter was quantised: its published size."""
    serve: Serve
    arm: Arm
    inferred: tuple[_Text, ...] = ()
    """Settings that the source does not state and that we took from elsewhere."""
    from_memory_only: _Text | None = None
    """Why a plan from the card is not compared: a setting it needs was not published."""
    tokens: Positive
    """"GPU KV cache size" of the engine's log, tokens."""
    kv_gib: _Gib | None = None
    """"Available KV cache memory" of one GPU in the log, GiB."""
    weights_gib: _Gib | None = None
    """Weights of one GPU, GiB."""
    note: _Text | None = None
    """Why a prediction that misses the goal does."""


class PublishedPools(Part):
    """The whole file."""

    calibration: dict[str, PublishedPool]
    held_out: dict[str, PublishedPool]


@dataclass(frozen=True)
class Outcome:
    """A published pool and what the planner says of it.

    Attributes:
        card: pools for the least, the expected and the most memory, from the card's size alone.
        layout: pool from the published KV memory: tests the arithmetic of the cache without the estimate of memory.
        weights_gib: predicted weights of one GPU, the drafter's included.
    """

    row: PublishedPool
    card: tuple[Pool, Pool, Pool] | None
    layout: Pool | None
    weights_gib: float | None

    @property
    def card_error(self) -> float | None:
        """Relative error of the expected pool from the card."""
        return self.card[1].tokens / self.row.tokens - 1 if self.card else None

    @property
    def layout_error(self) -> float | None:
        """Relative error of the pool from the published memory."""
        return self.layout.tokens / self.row.tokens - 1 if self.layout else None

    @property
    def best_test(self) -> float | None:
        """The error that the goal is held against: from the card, else from the published memory."""
        return self.layout_error if self.card_error is None else self.card_error


def read_pools(root: Path) -> PublishedPools:
    """Read the published pools.

    Raises:
        SpecdeckError: the file is missing or wrong; names file, line and key.
    """
    path = root / POOLS
    shown = display(path, root)
    document = resolve_file(path, path.parent, root)
    try:
        return PublishedPools.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise_problems(from_validation(error, PublishedPools), document, shown)
        raise  # not reached: pydantic never raises without an error


def outcome(row: PublishedPool, root: Path) -> Outcome:
    """Plan a published configuration.

    Raises:
        SpecdeckError: nothing is known about its target or drafter.
    """
    recipe = Recipe(
        name="published", title=row.title, target=Checkpoint(repo=row.target),
        drafter=Checkpoint(repo=row.drafter) if row.drafter else None,
        engine=Engine(vllm=">=0.27", runtime="local"), hardware=row.hardware, serve=row.serve, arms={"arm": row.arm},
    )  # fmt: skip
    target = _facts(row.target, row.target_weight_bytes, root)
    drafter = _facts(row.drafter, row.drafter_weight_bytes, root) if row.drafter else None
    whole = plan_arm(recipe, "arm", target, drafter, suggest=False)
    fixed = (
        plan_arm(recipe, "arm", target, drafter, kv_bytes=int(row.kv_gib * GIB), suggest=False) if row.kv_gib else None
    )
    return Outcome(
        row, None if row.from_memory_only else whole.pools, fixed.pools[1] if fixed and fixed.pools else None,
        _weights(whole),
    )  # fmt: skip


def outcomes(root: Path) -> tuple[list[Outcome], list[Outcome]]:
    """Return all outcomes: those the planner is calibrated on, and those held out."""
    pools = read_pools(root)
    return (
        [outcome(row, root) for row in pools.calibration.values()],
        [outcome(row, root) for row in pools.held_out.values()],
    )


def fair(found: Outcome) -> bool:
    """Whether a row is a test at all: every setting that its prediction rests on was published."""
    # Between 2,048 and 8,192 the batch size moves a pool from published memory by less than 2 %.
    harmless = {"serve.max_num_batched_tokens"} if found.card is None else set()
    return set(found.row.inferred) <= harmless


def pool_table(root: Path) -> str:
    """Predicted against published pools, as Markdown, with the count that the goal asks for."""
    calibrated, held = outcomes(root)
    tests = [found for found in held if fair(found)]
    met = [found for found in tests if (error := found.best_test) is not None and abs(error) <= GOAL]
    all_met = [found for found in held if (error := found.best_test) is not None and abs(error) <= GOAL]
    lines = [
        f"Of {len(held)} held-out rows {len(all_met)} are met within {GOAL:.0%}".replace("%", " %")
        + f"; of the {len(tests)} among them whose settings were all published, {len(met)}.",
        "",
        "| configuration | published, tokens | from the card (range) | error | from published KV memory | error | |",
        "|:--|--:|--:|--:|--:|--:|:--|",
        *(_line(found, "held out") for found in held),
        *(_line(found, "calibrates") for found in calibrated),
    ]
    return "\n".join(lines)


def weight_table(root: Path) -> str:
    """Predicted against published weights of one GPU, as Markdown."""
    lines = ["| configuration | published, GiB | predicted, GiB | error |", "|:--|--:|--:|--:|"]
    for found in outcomes(root)[1]:
        if found.row.weights_gib and found.weights_gib:
            error = _percent(found.weights_gib / found.row.weights_gib - 1)
            lines.append(f"| {found.row.title} | {found.row.weights_gib:.2f} | {found.weights_gib:.2f} | {error} |")
    return "\n".join(lines)


def _line(found: Outcome, use: str) -> str:
    row = found.row
    remarks = [use]
    if row.inferred:
        remarks.append("not stated by the source: " + ", ".join(name.rpartition(".")[2] for name in row.inferred))
    remarks += [text for text in (row.from_memory_only, row.note) if text]
    card = layout = ""
    if found.card:
        low, middle, high = (f"{pool.tokens:,}" for pool in found.card)
        card = f"{middle} ({low}–{high})"
    if found.layout:
        layout = f"{found.layout.tokens:,}"
    cells = (
        f"{row.title}<br>{row.source}", f"{row.tokens:,}", card, _percent(found.card_error), layout,
        _percent(found.layout_error), "; ".join(remarks),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _percent(error: float | None) -> str:
    return (
        "" if error is None else f"{100 * error:+.1f} %".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
    )


def _facts(repo: str, weight_bytes: int | None, root: Path) -> CheckpointFacts:
    found = published_facts(repo, root)
    if found is None:
        raise SpecdeckError(
            f"nothing is published about {repo}", where=POOLS, fix="add models/<owner>--<name>.yml, or remove the row"
        )
    return replace(found, weight_bytes=weight_bytes) if weight_bytes else found


def _weights(plan: ArmPlan) -> float | None:
    parts = [amount.expected for amount in plan.memory if amount.name in ("target weights", "drafter weights")]
    return sum(parts) if parts else None
