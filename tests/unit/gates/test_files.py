"""Gate files and baselines: read strictly, written for review, errors with the place and the fix."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sides import measured, with_floors

from specdeck.errors import SpecdeckError
from specdeck.gates.baseline import encode, floors_of, make_baseline, read_baseline
from specdeck.gates.measurement import mismatches
from specdeck.gates.models import load_gates
from specdeck.stats.comparison import compare

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("regressions: {a: {metric: tpot, max_loss: 0.1}}", "gates.yml:3, key regressions.a.metric"),
        ("regressions: {a: {metric: tpot_s, max_los: 0.1}}", "max_loss"),
        ("regressions: {a: {metric: tpot_s, max_loss: -1}}", "at least 0"),
        ("floors: {a: {metric: acceptance_at, min: 0.5}}", "acceptance_at, and only there"),
        ("validity: null", "there is no gate in it"),
        ("floors: {validity: {metric: output_tok_s, min: 1}}", "validity has a gate of that name"),
        ("floors: {a: {metric: output_tok_s, min: 1}}\nquality: {a: {}}", "floors has a gate of that name"),
        ("quality: {a: {arms: [mtp]}}", "without `check`"),
        ("contamination: {}\nconfirm: 6", "confirm"),
    ],
)
def test_a_wrong_gate_file_says_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "gates.yml"
    path.write_text(f"name: mine\ntitle: Mine\n{text}\n")
    with pytest.raises(SpecdeckError) as caught:
        load_gates(str(path))
    assert says in str(caught.value)


def test_an_unknown_name_offers_those_there_are() -> None:
    with pytest.raises(SpecdeckError, match="defualt") as caught:
        load_gates("defualt")
    assert "default" in str(caught.value.fix)


def test_a_baseline_read_back_compares_as_the_run_itself(tmp_path: Path) -> None:
    base = with_floors(measured("base"))
    path = tmp_path / "baseline.json"
    path.write_bytes(encode(make_baseline(measured("base"), measured("again", seed=1))))
    found = read_baseline(path)
    assert found.fingerprint == base.fingerprint
    assert found.floor_from == "again"
    assert found.floors == pytest.approx(base.floors)
    candidate = measured("candidate", seed=2, slower=1.05)
    ours = [e.value for e in compare(base.samples, candidate.samples).effects]
    theirs = [e.value for e in compare(found.samples, candidate.samples).effects]
    assert theirs == pytest.approx(ours, rel=1e-7)
    assert np.isnan(found.samples["none", 1].sums["steps"]).all()


def test_a_baseline_has_one_line_for_each_sample_and_floor(tmp_path: Path) -> None:
    made = make_baseline(measured("base"), measured("again", seed=1))
    lines = encode(made).decode().splitlines()
    assert sum(line.startswith('  {"arm"') for line in lines) == 2
    assert sum(line.startswith('  {"key"') for line in lines) == len(made.floors)
    assert json.loads("\n".join(lines))["run_id"] == "base"


def test_the_floor_covers_what_the_repetition_moved() -> None:
    base, again = measured("base"), measured("again", seed=1)
    floors = floors_of(base, again)
    for effect in compare(base.samples, again.samples).effects:
        assert effect.value is not None
        if effect.kind == "ratio":
            assert max(effect.value, 1 / effect.value) - 1 <= floors[effect.key]


@pytest.mark.parametrize(
    ("changes", "says"), [({"status": "partial"}, "not complete"), ({"arms": ()}, "no valid cell")]
)
def test_an_unsound_run_cannot_be_a_baseline(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecdeckError, match=says):
        make_baseline(measured("base", **changes), None)


def test_a_repetition_must_be_another_run_of_the_same_thing() -> None:
    with pytest.raises(SpecdeckError, match="not its own repetition"):
        floors_of(measured("base"), measured("base"))
    with pytest.raises(SpecdeckError, match="its plan is"):
        floors_of(measured("base"), measured("again", plan_sha256="d" * 64))


def test_the_fingerprint_names_what_differs() -> None:
    one, other = measured("a"), measured("b", recipe_sha256="e" * 64, device="unknown")
    assert [name for name, _, _ in mismatches(one, other)] == ["device", "recipe"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema_version": 1}', b"\xff\xfe", b"[]"])
def test_a_damaged_baseline_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(SpecdeckError, match="damaged") as caught:
        read_baseline(path)
    assert caught.value.where == str(path)


def test_a_baseline_whose_tables_do_not_fit_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    data = json.loads(encode(make_baseline(measured("base"), None)))
    data["samples"][0]["sums"]["tokens"].pop()
    path.write_text(json.dumps(data))
    with pytest.raises(SpecdeckError, match="prompts × rounds"):
        read_baseline(path)
