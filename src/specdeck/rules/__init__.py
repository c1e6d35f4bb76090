"""Rules: every known trap as a small pure function from a recipe to findings. Nothing here starts an engine."""

from specdeck.checkpoint import CheckpointFacts
from specdeck.rules.context import Context, context_of
from specdeck.rules.evaluate import Report, check_arm, check_loaded
from specdeck.rules.facts import HostFacts
from specdeck.rules.model import Rule, Severity
from specdeck.rules.registry import all_rules, rule_of

__all__ = [
    "CheckpointFacts",
    "Context",
    "HostFacts",
    "Report",
    "Rule",
    "Severity",
    "all_rules",
    "check_arm",
    "check_loaded",
    "context_of",
    "rule_of",
]
