"""One side of a comparison, from a run or from a baseline file: samples, where they were made, what limits them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specdeck.report.origin import gpus, processor, vllm_version
from specdeck.results.kind import require_measured
from specdeck.stats.sample import Sample, samples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.results.quality import CheckResult
    from specdeck.results.schema import Cell, RequestRecord, Run
    from specdeck.stats.comparison import Key
    from specdeck.stats.model import Note

CONTAMINATED = "contaminated"
"""The finding of a cell during which somebody else used the server."""


@dataclass(frozen=True)
class Measurement:
    """What was measured and where.

    Attributes:
        name: of the run.
        fingerprint: what must be equal for times to be comparable; None where it is not known.
        samples: by (arm, concurrency), of valid cells.
        invalid: a sentence for each invalid cell.
        contaminated: the cells during which somebody else used the server.
        complete: whether the run measured everything that it planned.
        quality: what quality checks left beside the run.
        floors: noise floor by row; empty without an A/A.
        floor_from: the repetition that the floors come from.
    """

    name: str
    created_at: str
    device: str
    fingerprint: dict[str, str | None]
    samples: dict[tuple[str, int], Sample]
    invalid: tuple[str, ...] = ()
    contaminated: tuple[str, ...] = ()
    complete: bool = True
    quality: tuple[CheckResult, ...] = ()
    floors: Mapping[Key, float] = field(default_factory=dict)
    floor_from: str | None = None


def measurement(
    run: Run,
    cells: Sequence[tuple[Cell, Sequence[RequestRecord]]],
    quality: tuple[CheckResult, ...] = (),
    damaged: Sequence[Note] = (),
) -> Measurement:
    """Reduce a run to what a comparison needs.

    Raises:
        SpecdeckError: the run's acceptance is synthetic.
    """
    require_measured(run, "a comparison or a gate")
    bad = [cell for cell, _ in cells if cell.status != "ok"]
    return Measurement(
        name=run.run_id,
        created_at=run.created_at,
        device=run.device,
        fingerprint=fingerprint(run),
        samples=samples(cells),
        invalid=(
            *(
                ": ".join(filter(None, (f"{note.arm or ''} {note.cell_id or ''}".strip(), note.message)))
                for note in damaged
            ),
            *(f"{_name(cell)}: {_why(cell)}" for cell in bad),
        ),
        contaminated=tuple(
            _name(cell) for cell, _ in cells if any(finding.code == CONTAMINATED for finding in cell.findings)
        ),
        complete=run.status == "complete",
        quality=quality,
    )


def fingerprint(run: Run) -> dict[str, str | None]:
    """What decides how fast the same commit is: hardware, driver, engine, recipe, plan and prompts."""
    host = run.provenance.get("host")
    found: dict[str, Any] = host if isinstance(host, dict) else {}
    cards = found.get("gpus") if run.device != "cpu" else None
    drivers = sorted({str(card.get("driver")) for card in cards or () if isinstance(card, dict) and card.get("driver")})
    engine = run.recipe.get("engine")
    image = engine.get("image") if isinstance(engine, dict) else None
    return {
        "device": run.device,
        "processor": processor(run),
        "GPUs": gpus(run),
        "driver": ", ".join(drivers) or None,
        "image": image,
        "vLLM": vllm_version(run),
        "recipe": f"{run.recipe_name} {run.recipe_sha256[:12]}".strip(),
        "plan": f"{run.plan_name} {run.plan_sha256[:12]}".strip(),
        "prompts": f"{run.prompts_file} {run.prompts_sha256[:12]}".strip(),
    }


def mismatches(base: Measurement, candidate: Measurement) -> list[tuple[str, str | None, str | None]]:
    """Name, base's and candidate's value of each part of the fingerprint that differs."""
    names = dict.fromkeys([*base.fingerprint, *candidate.fingerprint])
    pairs = [(name, base.fingerprint.get(name), candidate.fingerprint.get(name)) for name in names]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _name(cell: Cell) -> str:
    return f"{cell.arm} {cell.cell_id}"


def _why(cell: Cell) -> str:
    return "; ".join(f.message for f in cell.findings if f.severity == "invalid") or "marked invalid"
