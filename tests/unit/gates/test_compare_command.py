"""`compare` and `baseline set` on runs on disk: exit codes, refusals, formats, the log of cleared alarms."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import typer
from support.runs import stored
from support.sides import side
from typer.testing import CliRunner

from specdeck.cli import baseline, compare
from specdeck.errors import SpecdeckError
from specdeck.report.compare.markdown import LIMIT
from specdeck.results.quality import CheckResult, write_check

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(pretty_exceptions_enable=False)
    compare.register(made)
    baseline.register(made)
    return made


def call(app: typer.Typer, *words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    what: dict[str, dict[str, Any]] = {
        "base": {},
        "again": {"seed": 1},
        "same": {"seed": 2},
        "slow": {"seed": 3, "slower": 1.2},
        "elsewhere": {"seed": 4, "recipe_sha256": "e" * 64},
    }
    return {name: stored(tmp_path, *side(name, **parts)) for name, parts in what.items()}


def test_an_equal_run_passes_with_0_and_a_slower_one_fails_with_1(app: typer.Typer, runs: dict[str, Path]) -> None:
    same = call(app, "compare", runs["base"], runs["same"], "--aa", runs["again"])
    assert same.exit_code == 0, same.output
    assert same.output.startswith("PASS: same against base")
    slow = call(app, "compare", runs["base"], runs["slow"], "--aa", runs["again"])
    assert slow.exit_code == 1
    assert "throughput" in slow.output
    assert "✗ FAIL" in slow.output


def test_without_a_repetition_the_exit_code_is_2(app: typer.Typer, runs: dict[str, Path]) -> None:
    found = call(app, "compare", runs["base"], runs["slow"])
    assert found.exit_code == 2
    assert "no noise floor" in found.output


def test_a_baseline_file_judges_as_the_runs_do(app: typer.Typer, runs: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    written = call(app, "baseline", "set", runs["base"], "--aa", runs["again"], "--output", file)
    assert written.exit_code == 0, written.output
    assert call(app, "compare", file, runs["same"]).exit_code == 0
    assert call(app, "compare", file, runs["slow"]).exit_code == 1
    with pytest.raises(SpecdeckError, match="floor of its own"):
        compare._base(file, runs["again"])


def test_another_fingerprint_is_refused_unless_told_and_then_marked(app: typer.Typer, runs: dict[str, Path]) -> None:
    words: list[str | Path] = ["compare", runs["base"], runs["elsewhere"], "--aa", runs["again"]]
    refused = call(app, *words)
    assert isinstance(refused.exception, SpecdeckError)
    assert "recipe: tiny-next-cpu aaaaaaaaaaaa → tiny-next-cpu eeeeeeeeeeee" in str(refused.exception)
    allowed = call(app, *words, "--allow-fingerprint-mismatch")
    assert allowed.exit_code == 0
    assert "the sides differ in recipe: the comparison was forced" in allowed.output


def test_an_alarm_that_does_not_come_again_is_cleared_and_logged(app: typer.Typer, runs: dict[str, Path]) -> None:
    words: list[str | Path] = ["compare", runs["base"], runs["slow"], "--aa", runs["again"], "--confirm"]
    cleared = call(app, *words, runs["same"])
    assert cleared.exit_code == 0, cleared.output
    assert "failed once and was cleared" in cleared.output
    log = (runs["base"].parent / "cleared-alarms.jsonl").read_text().splitlines()
    assert {json.loads(line)["gate"] for line in log} == {"throughput", "time-per-output-token"}
    assert call(app, *words, runs["slow"]).exit_code == 1


def test_a_run_cannot_clear_its_own_alarm_nor_one_of_another_recipe(app: typer.Typer, runs: dict[str, Path]) -> None:
    words: list[str | Path] = ["compare", runs["base"], runs["slow"], "--aa", runs["again"], "--confirm"]
    for run, says in (("slow", "alarm of its own"), ("base", "alarm of its own"), ("elsewhere", "same way")):
        refused = call(app, *words, runs[run])
        assert isinstance(refused.exception, SpecdeckError), refused.output
        assert says in str(refused.exception)


def test_a_failure_says_what_to_measure_again(app: typer.Typer, runs: dict[str, Path]) -> None:
    found = call(app, "compare", runs["base"], runs["slow"], "--aa", runs["again"])
    assert "measure mtp, none again" in " ".join(found.output.split())


def test_a_failed_quality_check_in_the_folder_of_the_run_fails_the_comparison(
    app: typer.Typer, runs: dict[str, Path]
) -> None:
    words: list[str | Path] = ["compare", runs["base"], runs["same"], "--aa", runs["again"]]
    write_check(runs["same"], CheckResult(check="gsm8k", arm="mtp", verdict="pass", n=200, value=0.95))
    assert call(app, *words).exit_code == 0
    write_check(runs["same"], CheckResult(check="needle", arm="mtp", verdict="fail", n=9, reason="3 of 9 not found"))
    failed = call(app, *words)
    assert failed.exit_code == 1
    assert "3 of 9 not found" in failed.output
    (runs["same"] / "quality" / "needle-mtp.json").write_text("{")
    damaged = call(app, *words)
    assert damaged.exit_code == 1
    assert "quality/needle-mtp.json" in damaged.output


def test_every_format_is_written_and_agrees(app: typer.Typer, runs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    call(app, "compare", runs["base"], runs["slow"], "--aa", runs["again"], "--write", out)
    outcome = json.loads((out / "comparison.json").read_text())
    failed = {gate["name"] for gate in outcome["gates"] if gate["verdict"] == "fail"}
    assert failed == {"throughput", "time-per-output-token"}
    cases = ET.parse(out / "junit.xml").getroot().findall(".//testcase")
    assert {case.get("name") for case in cases if case.find("failure") is not None} == failed
    assert len(cases) == len(outcome["gates"])
    rows = list(csv.DictReader((out / "comparison.csv").open()))
    assert len(rows) == len(outcome["comparison"]["effects"])
    comment = (out / "comparison.md").read_text()
    assert comment.startswith("<!-- specdeck comparison: default -->\n")
    assert comment.count("<details>") == comment.count("</details>") == 4
    page = (out / "comparison.html").read_text()
    assert page.count('<ol class="forest">') == 1
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_a_comment_never_exceeds_what_the_host_takes_and_says_when_it_was_cut(
    app: typer.Typer, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[str | Path] = ["compare", runs["base"], runs["slow"], "--aa", runs["again"], "--format", "markdown"]
    whole = call(app, *words).output
    assert len(whole) < LIMIT
    for limit in (3000, 900):
        monkeypatch.setattr("specdeck.report.compare.markdown.LIMIT", limit)
        cut = call(app, *words).output
        assert len(cut) <= limit
        assert "did not fit into a comment" in cut
        assert cut.startswith("<!-- specdeck comparison: default -->")


def test_hostile_names_stay_text_in_every_format(app: typer.Typer, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    parts: dict[str, Any] = {"provenance": {"host": {"cpu": f"{name}|`x`\x07 & co", "cores": 2}}}
    made = [stored(tmp_path, *side(run, seed=i, **parts)) for i, run in enumerate(("a", "b"))]
    out = tmp_path / "out"
    call(app, "compare", made[0], made[1], "--write", out)
    assert "<script>" not in (out / "comparison.html").read_text()
    assert "<script>" not in (out / "comparison.md").read_text()
    ET.parse(out / "junit.xml")
