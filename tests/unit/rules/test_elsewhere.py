"""Traps without a rule: each says why, and what it points to exists."""

from __future__ import annotations

import re

from specdeck.paths import repo_root
from specdeck.rules.elsewhere import TRAPS
from specdeck.rules.registry import all_rules
from specdeck.rules.text import markdown

ROOT = repo_root()


def test_each_says_what_is_seen_why_there_is_no_rule_what_helps_and_where_it_was_reported() -> None:
    for trap in TRAPS:
        assert all(text.strip() for text in (trap.symptom, trap.why, trap.instead, *trap.evidence)), trap.symptom
        assert trap.evidence, trap.symptom


def test_rules_documents_and_plan_lines_that_they_point_to_exist() -> None:
    text = " ".join(f"{trap.why} {trap.instead}" for trap in TRAPS)
    known = {rule.id for rule in all_rules()}
    named = re.findall(r"rules? ([a-z0-9]+(?:-[a-z0-9]+)+)", text)
    assert named
    assert set(named) <= known
    assert all((ROOT / path).is_file() for path in re.findall(r"docs/[a-z]+\.md", text))
    assert "CUDA graphs, outside torch" in (ROOT / "src/specdeck/planner/memory.py").read_text(encoding="utf-8")


def test_the_list_of_traps_ends_with_them() -> None:
    tail = markdown().partition("## Traps that no rule can reveal")[2]
    assert all(trap.symptom in tail for trap in TRAPS)
