"""A comparison as JUnit XML: a test case for each gate, so that any CI shows which one failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from specdeck.report.compare import words

if TYPE_CHECKING:
    from specdeck.gates.outcome import Outcome

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(outcome: Outcome) -> str:
    """Failed gates are failures, unmeasurable ones errors."""
    failed = sum(gate.verdict == "fail" for gate in outcome.gates)
    unknown = sum(gate.verdict == "unmeasurable" for gate in outcome.gates)
    totals = {"tests": str(len(outcome.gates)), "failures": str(failed), "errors": str(unknown)}
    suites = ET.Element("testsuites", totals)
    suite = ET.SubElement(suites, "testsuite", {"name": _clean(f"specdeck {outcome.gate_file}"), **totals})
    for gate in outcome.gates:
        case = ET.SubElement(suite, "testcase", {"classname": f"specdeck.{gate.kind}", "name": _clean(gate.name)})
        text = _clean("\n".join((gate.summary, *gate.details)))
        if gate.verdict == "pass":
            ET.SubElement(case, "system-out").text = text
        else:
            kind = "failure" if gate.verdict == "fail" else "error"
            ET.SubElement(case, kind, {"message": _clean(gate.summary), "type": gate.verdict}).text = text
    ET.SubElement(suite, "system-out").text = _clean("\n".join((words.headline(outcome), *words.warnings(outcome))))
    ET.indent(suites, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub(" ", text)
