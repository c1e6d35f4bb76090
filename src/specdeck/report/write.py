"""Writes every file of a report, each whole or not at all. All of them can be made again from the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from specdeck.report import csv_tables, html, markdown
from specdeck.report.pictures import PICTURES
from specdeck.report.plots import draw
from specdeck.results.atomic import replace_file, storing

if TYPE_CHECKING:
    from pathlib import Path

    from specdeck.results.schema import Run
    from specdeck.stats.model import Summary


def write_all(run_dir: Path, run: Run, summary: Summary) -> list[Path]:
    """Write summary.json, tables, pictures, report.md and report.html into the run's folder; return their paths.

    A picture that has nothing to show any more is removed.

    Raises:
        SpecdeckError: a file could not be written (full disk, no permission); the old one is untouched.
    """
    # Pictures leave their page; one of an assumed acceptance would be taken for a drafter's.
    shown = summary.acceptance_kind == "measured"
    pictures = {p.file: draw(p.name, summary) if shown else None for p in PICTURES}
    drawn = {file: data for file, data in pictures.items() if data is not None}
    files = {
        "summary.json": as_json(summary).encode(),
        **{f"tables/{name}": text.encode() for name, text in csv_tables.render(summary).items()},
        **drawn,
        "report.md": markdown.render(run, summary, drawn).encode(),
        "report.html": html.render(run, summary).encode(),
    }
    with storing("the report", run_dir):
        (run_dir / "tables").mkdir(exist_ok=True)
        for name, data in files.items():
            replace_file(run_dir / name, data)
        for name in pictures.keys() - drawn.keys():
            (run_dir / name).unlink(missing_ok=True)
    return [run_dir / name for name in files]


def as_json(summary: Summary) -> str:
    """The summary as JSON, indented, in the order of its fields."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=1).decode() + "\n"
