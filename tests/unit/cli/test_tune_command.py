"""`specdeck tune` from stored runs: tables and a recommendation, JSON, profiles, and refusals that say why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import typer
from support.runs import stored, whole_run
from typer.testing import CliRunner

from specdeck.cli import tune as command
from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    command.register(made)
    made.callback()(lambda: None)
    return made


def test_every_length_up_to_the_measured_one_is_shown_and_one_is_recommended(tmp_path: Path, app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run())), "--json"])
    assert done.exit_code == 0, done.output
    found = {(item["method"], item["concurrency"]): item for item in json.loads(done.output)}
    assert set(found) == {(method, at) for method in ("mtp", "dflash") for at in (1, 4)}
    for (method, _), item in found.items():
        assert [point["n"] for point in item["points"]] == list(range((3 if method == "mtp" else 7) + 1))
        assert item["best"] is not None
        measured = [point["n"] for point in item["points"] if point["measured_tok_s"] is not None]
        assert measured == [0, 3 if method == "mtp" else 7]


def test_the_terminal_says_measured_and_predicted_and_that_a_cpu_predicts_no_gpu(
    tmp_path: Path, app: typer.Typer
) -> None:
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run()))])
    assert done.exit_code == 0, done.output
    assert all(word in done.output for word in ("measured", "predicted", "does not predict a GPU", "fastest"))


def test_max_n_goes_beyond_what_was_measured_and_is_marked(tmp_path: Path, app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run())), "--max-n", "9", "--json"])
    points = json.loads(done.output)[0]["points"]
    assert {point["basis"] for point in points if point["n"] > 7} == {"extrapolated"}


def test_a_run_without_a_drafter_ends_with_two(tmp_path: Path, app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run(arms=("none",))))])
    assert done.exit_code == EXIT_UNMEASURABLE
    assert "nothing to recommend" in done.output


def test_runs_on_different_prompts_are_refused_by_name(tmp_path: Path, app: typer.Typer) -> None:
    one = stored(tmp_path, *whole_run())
    other = stored(tmp_path, *whole_run(run_id="other-20260102-030405", prompts_sha256="d" * 64))
    done = CliRunner().invoke(app, ["tune", str(one), str(other)])
    assert isinstance(done.exception, SpecdeckError)
    assert done.exception.where == "other-20260102-030405"
    assert "prompts" in done.exception.what


@pytest.mark.parametrize("name", ["2x3090-qwen3.8-27b-int4-code", "h100-pcie-qwen3.8-27b-int4"])
def test_a_shipped_profile_replaces_the_step_times(tmp_path: Path, app: typer.Typer, name: str) -> None:
    folder = stored(tmp_path, *whole_run())
    done = CliRunner().invoke(app, ["tune", str(folder), "--profile", name])
    assert done.exit_code == 0, done.output
    assert "profile" in done.output


def test_an_unknown_profile_names_those_that_exist(tmp_path: Path, app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run())), "--profile", "nothing-like-it"])
    assert isinstance(done.exception, SpecdeckError)
    assert "2x3090-qwen3.8-27b-int4-code" in (done.exception.fix or "")


def test_a_damaged_profile_file_is_refused_with_its_line(tmp_path: Path, app: typer.Typer) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("mine:\n  hardware: x\n  engine: y\n  source: z\n  step_ms: {mtp: {1: {3: -1}}}\n")
    done = CliRunner().invoke(app, ["tune", str(stored(tmp_path, *whole_run())), "--profile", str(path)])
    assert isinstance(done.exception, SpecdeckError)
    assert "mine.yml" in str(done.exception)
