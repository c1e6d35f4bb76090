"""An error of a log leads to the rule that explains it."""

from __future__ import annotations

import pytest

from specdeck.rules.registry import rule_of
from specdeck.rules.symptoms import SYMPTOMS, known_trap, rule_for


@pytest.mark.parametrize("rule", sorted({rule for _, rule in SYMPTOMS}))
def test_every_symptom_leads_to_a_rule_that_exists(rule: str) -> None:
    assert rule_of(rule).id == rule


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        ("NotImplementedError: Model Runner V1 does not support: dflash2 drafts", "v1-runner-refused"),
        ("ValueError: type fp8e4nv not supported in this architecture. The supported", "moe-fp8-old-gpu"),
        ("ValueError: QSA ring capacity 12 must divide the attention block size 1616", "qsa-ring-capacity"),
        ("ValueError: bad head size 32", None),
    ],
)
def test_a_line_of_a_log_is_known_by_its_words(error: str, rule: str | None) -> None:
    assert rule_for(error) == rule
    assert (f"specdeck rules show {rule}" in known_trap(error)) is (rule is not None)
