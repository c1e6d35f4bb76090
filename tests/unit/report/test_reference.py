"""Published figures: whole, sourced, and put beside runs of the same model only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from support.runs import stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import report
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.report.reference import PUBLISHED, SHIPPED, beside, load_publications
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repo_root()
RECIPE = {"target": {"repo": "Qwen/Qwen3.8-27B-FP8"}, "hardware": {"gpus": 1, "class": "h100-80g"}}


def call(*words: str | Path) -> Any:
    app = typer.Typer(pretty_exceptions_enable=False)
    report.register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_the_shipped_figures_are_of_families_that_recipes_are_for_and_no_row_stands_twice() -> None:
    found = load_publications(SHIPPED, ROOT)
    repos = " ".join(path.read_text() for path in (ROOT / "recipes").rglob("*.yml")).lower()
    rows = [(p.source, p.weights, *r.model_dump(exclude={"output_tok_s"}).items()) for p in found for r in p.rows]
    assert all(publication.model.lower() in repos for publication in found)
    assert len(rows) == len(set(rows))
    longest = [(r.n, r.acceptance_length) for p in found for r in p.rows if r.n and r.acceptance_length]
    assert all(length <= n + 1 for n, length in longest)  # more than n + 1 tokens a step would be another definition


def test_a_run_comes_first_then_the_same_hardware_then_the_rest_of_its_model_only() -> None:
    made, cells = whole_run(recipe=RECIPE)
    found = beside(made, summarize(made, cells), load_publications(SHIPPED, ROOT))
    sources = [row[0] for row in found.rows]
    own = len(summarize(made, cells).rows)
    assert set(sources[:own]) == {"this run"}
    assert sources[own].startswith("HammGsm/")
    assert not any("GLM" in source or "Flash-Next" in source for source in sources)
    assert "do not judge" in found.notes[0]


def test_a_model_that_nobody_published_about_says_which_there_are() -> None:
    made, cells = whole_run()
    with pytest.raises(SpecdeckError, match=r"figures of Qwen3\.8-27B"):
        beside(made, summarize(made, cells), load_publications(SHIPPED, ROOT))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("output_tok_s: 62.59", "output_tok_s: -1"), "greater than 0"),
        (("output_tok_s: 62.59", "output_toks: 62.59"), "output_tok_s"),
        ((", output_tok_s: 62.59", ""), "has no figure"),
    ],
)
def test_a_wrong_file_of_figures_says_where_and_what(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    path = tmp_path / "mine.yml"
    text = (ROOT / PUBLISHED).read_text()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    with pytest.raises(SpecdeckError, match=says) as caught:
        load_publications(str(path), ROOT)
    assert "mine.yml" in str(caught.value.where) + str(caught.value)


def test_the_command_prints_a_table_and_writes_nothing(tmp_path: Path) -> None:
    folder = stored(tmp_path, *whole_run(recipe=RECIPE))
    before = sorted(folder.rglob("*"))
    text = call(folder, "--against", "reference", "--format", "markdown").output
    assert text.startswith("## Beside published figures")
    assert "HammGsm/qwen38" in text
    assert "Beside published figures" in call(folder, "--against", "reference").output
    assert sorted(folder.rglob("*")) == before
    for words, says in (
        (("--against", "nowhere.yml"), "no published figures"),
        (("--against", "reference", "--format", "json"), "as json"),
    ):
        failed = call(folder, *words)
        assert isinstance(failed.exception, SpecdeckError)
        assert says in str(failed.exception)
