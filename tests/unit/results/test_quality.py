"""Results of quality checks: kept whole, read strictly, and never contradicting themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from specdeck.errors import SpecdeckError
from specdeck.results.quality import CheckResult, read_checks, write_check

if TYPE_CHECKING:
    from pathlib import Path


def result(**changes: Any) -> CheckResult:
    fields: dict[str, Any] = {"check": "gsm8k", "arm": "mtp", "verdict": "pass", "n": 200, "value": 0.95}
    return CheckResult(**{**fields, **changes})


def test_a_result_read_back_is_the_one_written_and_a_newer_one_replaces_it(tmp_path: Path) -> None:
    first = result(unit="share", interval=(0.91, 0.98), reference=0.94, details={"wrong": ["q7"]})
    assert write_check(tmp_path, first) == tmp_path / "quality" / "gsm8k-mtp.json"
    write_check(tmp_path, result(arm="none"))
    assert read_checks(tmp_path) == (first, result(arm="none"))
    write_check(tmp_path, result(value=0.5, verdict="fail", reason="below 0.9"))
    assert [found.verdict for found in read_checks(tmp_path)] == ["fail", "pass"]


def test_a_run_without_checks_has_none_and_a_half_written_one_is_passed_over(tmp_path: Path) -> None:
    assert read_checks(tmp_path) == ()
    (tmp_path / "quality").mkdir()
    (tmp_path / "quality" / ".writing-gsm8k-mtp.json").write_text("{")
    assert read_checks(tmp_path) == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n": 0}, "judged nothing"),
        ({"verdict": "fail"}, "without a reason"),
        ({"verdict": "unmeasurable", "reason": ""}, "without a reason"),
        ({"value": float("nan")}, "finite"),
        ({"interval": (0.0, float("inf"))}, "finite"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        result(**changes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "damaged"),
        (b'{"schema_version": 1}', "damaged"),
        (b'{"schema_version": 2}', "newer specdeck"),
        (b'{"schema_version": 1, "check": "gsm8k", "arm": "mtp", "verdict": "pass", "n": 0}', "judged nothing"),
        (b'{"schema_version": 1, "check": "gsm8k", "arm": "none", "verdict": "pass", "n": 9}', "gsm8k of none"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "quality" / "gsm8k-mtp.json"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(SpecdeckError, match=says) as caught:
        read_checks(tmp_path)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecdeckError, match="cannot be the name"):
        write_check(tmp_path, result(check=name))
