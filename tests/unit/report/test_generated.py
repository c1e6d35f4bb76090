"""Tables inside documents: made from files, kept in place, and caught when they drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer
from support.runs import stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import tables as command
from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.report import generated
from specdeck.report.generated import blocks, filled

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = "<!-- specdeck tables: greeting {} -->"
END = generated.END


def greeting(root: Path, argument: str) -> str:
    return f"hello {argument}\n\\1 \\g<0>\n"


def document(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    return path


def make(path: Path) -> tuple[str, list[int]]:
    _, text, drifted = filled(path.parent, path, {"greeting": greeting})
    return text, [block.line for block in drifted]


def test_every_block_is_filled_and_the_rest_is_kept_to_the_byte(tmp_path: Path) -> None:
    text = f"a\n\n{BEGIN.format('you')}\nold\nolder\n{END}\nbetween\n{BEGIN.format('x y')}\n{END}\n\nz without newline"
    made, drifted = make(document(tmp_path, text))
    assert made == (
        f"a\n\n{BEGIN.format('you')}\nhello you\n\\1 \\g<0>\n{END}\nbetween\n"
        f"{BEGIN.format('x y')}\nhello x y\n\\1 \\g<0>\n{END}\n\nz without newline"
    )
    assert drifted == [3, 8]
    assert make(document(tmp_path, made)) == (made, [])


def test_an_empty_line_between_the_markers_is_replaced_too(tmp_path: Path) -> None:
    made, _ = make(document(tmp_path, f"{BEGIN.format('a')}\n\n{END}\n"))
    assert made == f"{BEGIN.format('a')}\nhello a\n\\1 \\g<0>\n{END}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"x\n{BEGIN.format('a')}\n", 2),
        (f"{BEGIN.format('a')}\n{BEGIN.format('b')}\n{END}\n", 1),
        (f"x\ny\n{END}\n", 3),
    ],
)
def test_a_marker_without_its_partner_is_named_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SpecdeckError) as caught:
        blocks(text, "README.md")
    assert caught.value.where == f"README.md:{line}"
    assert caught.value.fix


def test_a_name_that_nobody_makes_is_refused_with_those_that_are_made(tmp_path: Path) -> None:
    path = document(tmp_path, f"<!-- specdeck tables: gretting -->\n{END}\n")
    with pytest.raises(SpecdeckError, match="gretting") as caught:
        make(path)
    assert "greeting" in (caught.value.fix or "")


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    command.register(made)
    made.callback()(lambda: None)
    return made


def test_the_check_passes_after_the_tables_are_made_and_fails_when_a_document_drifts(
    tmp_path: Path, app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "recipes").mkdir()
    monkeypatch.setenv("SPECDECK_ROOT", str(tmp_path))
    folder = stored(tmp_path, *whole_run()).relative_to(tmp_path)
    path = document(tmp_path, f"# Title\n<!-- specdeck tables: run {folder} -->\n{END}\n")
    drifted = CliRunner().invoke(app, ["tables", "--check"])
    assert isinstance(drifted.exception, SpecdeckError)
    assert drifted.exception.exit_code == EXIT_FAILED
    assert drifted.exception.fix == "specdeck tables"
    assert path.read_text().count("\n") == 3
    written = CliRunner().invoke(app, ["tables"])
    assert written.exit_code == 0, written.output
    assert "DFlash2 (n=7) vs MTP (n=3)" in path.read_text()
    assert CliRunner().invoke(app, ["tables", "--check"]).exit_code == 0
    path.write_text(path.read_text().replace("2.", "3.", 1))
    assert isinstance(CliRunner().invoke(app, ["tables", "--check"]).exception, SpecdeckError)
