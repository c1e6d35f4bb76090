"""Figures that others published, beside a run: results/reference/published.yml or a file of that form.

They place a run and judge nothing: other prompts, engines and definitions stand behind them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from specdeck.errors import SpecdeckError
from specdeck.recipe.models import Name, Part, Positive
from specdeck.recipe.problems import from_validation, raise_problems
from specdeck.recipe.resolve import display
from specdeck.recipe.yamlfile import read_yaml
from specdeck.report.format import MISSING, clean, fixed, significant
from specdeck.report.origin import vllm_version
from specdeck.report.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary

PUBLISHED = "results/reference/published.yml"
SHIPPED = "reference"
METHODS = {"none": "none", "mtp": "MTP", "dflash": "DFlash2"}
CAVEAT = (
    "Published by others, with other prompts, engines and settings: they place this run, they do not judge it. "
    "Acceptance lengths include the bonus token. Output tok/s is that of all requests together."
)
_Text = Annotated[str, StringConstraints(min_length=1)]


class Place(Part):
    """What it was measured on; absent: not stated."""

    gpus: Positive | None = None
    class_: Annotated[Name, Field(alias="class")]


class Figure(Part):
    """One arm at one concurrency; `n`, `concurrency`: absent where the source does not state them."""

    method: Literal["none", "mtp", "dflash"]
    n: Annotated[int, Field(ge=1, le=64)] | None = None
    concurrency: Positive | None = None
    prompts: _Text
    output_tok_s: Annotated[float, Field(gt=0)] | None = None
    acceptance_length: Annotated[float, Field(ge=1, le=65)] | None = None
    """With the bonus token, whatever the source printed."""
    note: _Text | None = None


class Publication(Part):
    """Figures of one source that share a setup."""

    source: _Text
    model: _Text
    """Family: every checkpoint whose repository name has it is of it."""
    hardware: Place | None = None
    engine: _Text
    weights: _Text
    definition: _Text | None = None
    """What the source calls acceptance length, where it is not 1 + accepted / drafts."""
    rows: Annotated[tuple[Figure, ...], Field(min_length=1)]


class Publications(Part):
    """The file."""

    publications: Annotated[tuple[Publication, ...], Field(min_length=1)]


def load_publications(name_or_path: str, root: Path) -> tuple[Publication, ...]:
    """Read the published figures of the checkout (`reference`), or a file of that form.

    Raises:
        SpecdeckError: there is no such file, or every problem of it with its line.
    """
    path = root / PUBLISHED if name_or_path == SHIPPED else Path(name_or_path)
    if not path.is_file():
        raise SpecdeckError(
            "there are no published figures here",
            where=name_or_path,
            fix=f"--against {SHIPPED}, or a file of that form",
        )
    shown = display(path, root)
    document = read_yaml(path, shown)
    try:
        found = Publications.model_validate_json(json.dumps(document.data)).publications
    except ValidationError as error:
        raise_problems(from_validation(error, Publications), document, shown)
        raise  # not reached: pydantic never raises without an error
    for publication in found:
        for row in publication.rows:
            if row.output_tok_s is None and row.acceptance_length is None:
                raise SpecdeckError(
                    f"a row of {publication.source} has no figure", where=shown, fix="give one, or remove the row"
                )
    return found


def beside(run: Run, summary: Summary, publications: Sequence[Publication]) -> Table:
    """The run's figures, and what was published of the same model; the same hardware first.

    Raises:
        SpecdeckError: nothing was published of the run's model, or its acceptance was asked for and not measured.
    """
    if summary.acceptance_kind == "synthetic":
        raise SpecdeckError(
            "the acceptance of this run was asked for, not measured: it has no place beside measured figures",
            where=run.run_id,
            fix="measure the model's own drafter: specdeck bench RECIPE",
        )
    target = run.recipe.get("target") or {}
    repo = str(target.get("repo") or target.get("path") or "")
    ours = [item for item in publications if item.model.lower() in repo.lower()]
    if not ours:
        families = ", ".join(dict.fromkeys(item.model for item in publications))
        raise SpecdeckError(
            f"nothing was published of {repo or 'a server of unknown model'}; there are figures of {families}",
            where=run.run_id,
            fix="give figures of your own: --against FILE.yml, in the form of results/reference/published.yml",
        )
    hardware = run.recipe.get("hardware") or {}
    here = (hardware.get("gpus"), hardware.get("class"))
    ours.sort(key=lambda item: item.hardware is None or (item.hardware.gpus, item.hardware.class_) != here)
    arms = {arm.name: arm for arm in summary.arms}
    engine = f"vLLM {vllm_version(run) or ''}".strip()
    measured = [
        (
            "this run",
            _place(*here),
            engine,
            _method(arms[row.arm].method, arms[row.arm].num_speculative_tokens),
            str(row.concurrency),
            clean(run.prompts_file.rpartition("/")[2]),
            significant(row.output_tok_s.value),
            fixed(row.acceptance.length.value, 2),
            "",
        )
        for row in summary.rows
    ]
    return _table("Beside published figures", [*measured, *_rows(ours)], _definitions(ours))


def published_table(publications: Sequence[Publication]) -> Table:
    """All published figures."""
    return _table("Published figures", _rows(publications, with_model=True), _definitions(publications))


def _table(title: str, rows: Iterable[tuple[str, ...]], notes: Iterable[str]) -> Table:
    return Table(
        key="reference",
        title=title,
        columns=(
            Column("source", text=True, wrap=True),
            Column("on", text=True),
            Column("engine, weights", text=True, wrap=True),
            Column("method", text=True),
            Column("conc."),
            Column("prompts", text=True),
            Column("output tok/s"),
            Column("acceptance length"),
            Column("note", text=True, wrap=True),
        ),
        rows=tuple(rows),
        notes=(CAVEAT, *notes),
    )


def _rows(publications: Iterable[Publication], *, with_model: bool = False) -> list[tuple[str, ...]]:
    return [
        (
            clean(item.source),
            (f"{item.model}, " if with_model else "")
            + (_place(item.hardware.gpus, item.hardware.class_) if item.hardware else "not stated"),
            f"{clean(item.engine)}; {clean(item.weights)}",
            _method(row.method, row.n),
            MISSING if row.concurrency is None else str(row.concurrency),
            clean(row.prompts),
            significant(row.output_tok_s),
            fixed(row.acceptance_length, 2),
            clean(row.note or ""),
        )
        for item in publications
        for row in item.rows
    ]


def _definitions(publications: Iterable[Publication]) -> list[str]:
    told = {item.source: item.definition for item in publications if item.definition}
    return [f"Acceptance length of {clean(source)}: {clean(text)}." for source, text in told.items()]


def _place(gpus: object, kind: object) -> str:
    return clean(f"{gpus}× {kind}" if gpus else str(kind or "not stated"))


def _method(method: str | None, n: int | None) -> str:
    return METHODS.get(method or "none", clean(method or "none")) + (f" n={n}" if n else "")
