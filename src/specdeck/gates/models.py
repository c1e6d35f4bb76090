"""What a gate file may say: named regressions, floors and quality checks, validity, contamination, repetitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.recipe.models import Name, Part, Positive
from specdeck.recipe.problems import Problem, from_validation, raise_problems
from specdeck.recipe.resolve import display, nearest
from specdeck.recipe.yamlfile import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

MetricName = Literal["output_tok_s", "ttft_s", "tpot_s", "acceptance_length", "acceptance_at"]


class Where(Part):
    """Which rows a gate looks at."""

    arms: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Absent: every arm of the base. A named arm that was not measured makes the gate unmeasurable."""
    concurrency: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    """Absent: every concurrency of the base."""


class Regression(Where):
    """Fails when a figure got worse: significantly, by more than `max_loss`, and by more than its noise floor."""

    metric: MetricName
    max_loss: Annotated[float, Field(ge=0)]
    """Smallest loss that matters. Ratios: a fraction (0.03: 3 % slower). Acceptance: absolute (0.05 tokens)."""


class Floor(Where):
    """Fails when a figure of the candidate is below `min`, whatever the base says."""

    metric: Literal["output_tok_s", "acceptance_length", "acceptance_at"]
    position: Positive | None = None
    """Draft position from 1, for acceptance_at."""
    min: Annotated[float, Field(gt=0)]


class Quality(Part):
    """Fails when a quality check of the candidate failed; unmeasurable where one is missing or could not be made."""

    check: Name | None = None
    """Absent: every check that lies in the run's folder, whichever arm it is of."""
    arms: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Absent: every arm of the candidate must have `check`."""
    required: bool = True
    """False: where the run has no result of it at all, the comparison has no such gate."""


class Validity(Part):
    """Fails when too much of the candidate could not be trusted."""

    max_invalid_cells: Annotated[int, Field(ge=0)] = 0
    max_failed_requests: Annotated[int, Field(ge=0)] = 0


class Contamination(Part):
    """Fails when somebody else used the server during the candidate's run."""


class GateFile(Part):
    """Everything a comparison must pass."""

    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    regressions: dict[Name, Regression] = Field(default_factory=dict)
    floors: dict[Name, Floor] = Field(default_factory=dict)
    quality: dict[Name, Quality] = Field(default_factory=dict)
    confirm: Annotated[int, Field(ge=0, le=5)] = 1
    """How often a failing regression or floor is measured again: it counts when the same row fails every time."""
    validity: Validity | None = None
    contamination: Contamination | None = None


def load_gates(name_or_path: str) -> GateFile:
    """Load a file of `bench/gates/`, or a gate file anywhere.

    Raises:
        SpecdeckError: unknown name, or every problem of the file with its line.
    """
    root = repo_root()
    path = _find(name_or_path)
    shown = display(path, root)
    document = read_yaml(path, shown)
    try:
        gates = GateFile.model_validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise_problems(from_validation(error, GateFile), document, shown)
        raise  # not reached: pydantic never raises without an error
    raise_problems(_check(gates), document, shown)
    return gates


def _check(gates: GateFile) -> list[Problem]:
    problems = []
    if not (gates.regressions or gates.floors or gates.quality or gates.validity or gates.contamination):
        problems.append(Problem((), "there is no gate in it", "add one, for example `contamination: {}`"))
    named: dict[str, Iterable[str]] = {
        "regressions": gates.regressions,
        "floors": gates.floors,
        "quality": gates.quality,
    }
    taken = {"validity": "validity", "contamination": "contamination"}
    for section, entries in named.items():
        for name in entries:
            if name in taken:
                problems.append(
                    Problem((section, name), f"{taken[name]} has a gate of that name", "rename one of them")
                )
            taken.setdefault(name, section)
    problems += [
        Problem(("quality", name, "arms"), "without `check` every stored check counts", "name a check, or remove arms")
        for name, quality in gates.quality.items()
        if quality.arms is not None and quality.check is None
    ]
    for name, floor in gates.floors.items():
        if (floor.metric == "acceptance_at") != (floor.position is not None):
            problems.append(
                Problem(("floors", name, "position"), "belongs to acceptance_at, and only there", "add or remove it")
            )
    return problems


def _find(name_or_path: str) -> Path:
    folder = repo_root() / "bench" / "gates"
    known = sorted(path.stem for path in folder.glob("*.yml"))
    if name_or_path in known:
        return folder / f"{name_or_path}.yml"
    path = Path(name_or_path)
    if path.is_file():
        return path
    close = nearest(name_or_path, known)
    raise SpecdeckError(
        f"there are no gates called {name_or_path!r}",
        where=display(folder, repo_root()),
        fix=f"use one of: {', '.join(close or known)}, or the path of a gate file",
    )
