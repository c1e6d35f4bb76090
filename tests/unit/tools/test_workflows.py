"""What a workflow must keep to, checked without the host that runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdeck.paths import repo_root

FILES = sorted((repo_root() / ".github" / "workflows").glob("*.yml"))


def _load(name: str) -> Any:
    return yaml.safe_load((repo_root() / ".github" / "workflows" / name).read_text())


def test_there_are_the_two_workflows() -> None:
    assert [file.name for file in FILES] == ["ci.yml", "regression.yml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_full_commit_and_nothing_is_permitted_by_default(file: Any) -> None:
    text = file.read_text()
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use) for use in uses)
    loaded = yaml.safe_load(text)
    assert loaded["permissions"] == {}
    for job in loaded["jobs"].values():
        assert job["permissions"]["contents"] == "read"
        assert job["timeout-minutes"]
        checkouts = [s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_shell_line_contains_an_expression_that_somebody_else_writes(file: Any) -> None:
    for job in yaml.safe_load(file.read_text())["jobs"].values():
        assert not [step["run"] for step in job["steps"] if "${{" in step.get("run", "")]


def test_results_and_summary_come_in_any_case_and_the_gate_comes_last() -> None:
    jobs = _load("regression.yml")["jobs"]
    steps = jobs["measure"]["steps"]
    always = [step["name"] for step in steps if step.get("if") == "always()"]
    assert always == ["Upload raw results", "Write the summary"]
    assert jobs["gate"]["needs"] == ["measure", "comment"]
    assert jobs["gate"]["if"] == "always()"
    assert jobs["gate"]["steps"][-1]["run"] == "tools/regression.sh gate out/regression"


def test_only_the_job_that_comments_may_write_and_only_comments() -> None:
    jobs = _load("regression.yml")["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "measure": {"contents": "read"},
        "comment": {"contents": "read", "pull-requests": "write"},
        "gate": {"contents": "read"},
    }


BROKEN = """name: broken
"on": pull_request
jobs:
  a:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v6
      - run: echo ${{ github.event.pull_request.title }}
      - run: echo ${{ needs.nobody.outputs.value }}
"""


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        (("actionlint",), ('property "nobody" is not defined', "potentially untrusted")),
        (("zizmor", "--offline", "--no-progress"), ("template-injection", "unpinned-uses", "excessive-permissions")),
    ],
    ids=lambda value: value[0],
)
def test_the_linters_of_workflows_are_installed_and_refuse_a_broken_one(
    tmp_path: Path, tool: tuple[str, ...], said: tuple[str, ...]
) -> None:
    file = tmp_path / ".github" / "workflows" / "broken.yml"
    file.parent.mkdir(parents=True)
    file.write_text(BROKEN)
    command = [str(Path(sys.executable).parent / tool[0]), *tool[1:]]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    for word in said:
        assert word in done.stdout, done.stdout + done.stderr
    step = f'step "{tool[0]}" "$bin/{tool[0]}"'
    assert step in (repo_root() / "tools" / "lint.sh").read_text()
