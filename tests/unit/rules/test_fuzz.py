"""Thousands of damaged recipes and configs: always findings or an error with file and line, and no shell anywhere."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.checkout import RECIPE
from support.rule_cases import CASES, DRAFTER, TARGET

from specdeck.checkpoint import CheckpointFacts
from specdeck.engine.command import build_command
from specdeck.errors import SpecdeckError
from specdeck.recipe.load import open_recipe
from specdeck.rules.evaluate import check_loaded
from specdeck.rules.gather import gather
from specdeck.rules.text import finding, plain

if TYPE_CHECKING:
    from support.checkout import Checkout

ROUNDS = 1500
CONFIGS = 800
HOSTILE: tuple[Any, ...] = (
    "; rm -rf /", "$(touch pwned)", "`id`", "a\nb", "a' b", "--help", "../../etc/passwd", "\x00", "☃", "", " ", "-1",
    "1e999", -1, 0, 1, 2**31, 2**63, 10**30, 1.5, True, False, None, [], {}, [1, [2]], {"a": {"b": 1}}, "A" * 5000,
    float("inf"), ["; id", "|cat"], {"$(id)": "`id`"},
)  # fmt: skip


def mutated(value: Any, dice: random.Random) -> Any:
    """Return a copy with one place changed, removed, renamed or added."""
    value = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []
    open_: list[Any] = [value]
    while open_:
        here = open_.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else []
        for key in keys:
            places.append((here, key))
            open_.append(here[key])
    here, key = dice.choice(places)
    action = dice.randrange(4)
    if action == 0:
        here[key] = dice.choice(HOSTILE)
    elif action == 1:
        del here[key]
    elif action == 2 and isinstance(here, dict):
        here[dice.choice([str(word) for word in HOSTILE])] = here[key]
    else:
        here[key] = {"extra": {"max-thing": dice.choice(HOSTILE)}} if key == "serve" else dice.choice(HOSTILE)
    return value


def as_sh_reads(line: str) -> list[str]:
    program = f"words() {{ printf '%s\\0' \"$@\"; }}; words {line}"
    return subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def said(error: SpecdeckError) -> None:
    assert error.where
    assert error.fix
    assert re.search(r"recipes/|config\.json|models/|arms\.|engine\.|--|overlays\.", error.where), error.where


def test_damaged_recipes_end_in_findings_or_an_error_with_its_place(checkout: Checkout) -> None:
    base = yaml.safe_load(RECIPE)
    base["serve"] |= {"max_num_seqs": 4, "env": {"A": "b"}, "extra": {"seed_two": 3}, "kv_cache_dtype": "fp8"}
    base["expect"] = {"acceptance_length": {"mtp": {"min": 1.0, "source": "s"}}, "log_lines": ["x"]}
    dice = random.Random(20)
    outcomes = {"error": 0, "good": 0, "command": 0, "refused": 0}
    for _ in range(ROUNDS):
        data = base
        for _ in range(dice.randint(1, 3)):
            data = mutated(data, dice) or base
        checkout.recipe("r", yaml.safe_dump(data, allow_unicode=True))
        try:
            loaded = open_recipe("r")
            report = check_loaded(loaded, facts=gather(loaded.model, checkout.root))
        except SpecdeckError as error:
            said(error)
            outcomes["error"] += 1
            continue
        outcomes["good"] += 1
        assert all(finding(found) and found.where for found in report.found)
        json.dumps(plain(report))
        for arm in loaded.model.arms:
            try:
                command = build_command(
                    loaded.model, arm, python=Path("/venv/bin/python"), host="127.0.0.1", port=8000, root=checkout.root
                )
            except SpecdeckError as error:
                outcomes["refused"] += bool(error.where and error.fix)
                continue
            outcomes["command"] += 1
            # Read as a shell reads it, the line is the argument list again: nothing in it is syntax.
            line = command.shell({})
            words = shlex.split(line.replace(" \\\n", " "))
            assert words[-len(command.argv) :] == list(command.argv)
            if outcomes["command"] % 40 == 1:
                assert as_sh_reads(line)[-len(command.argv) :] == list(command.argv)
            assert not any(word.startswith("-") and not word.startswith("--") for word in command.argv[3:])
    assert min(outcomes[kind] for kind in ("error", "good", "command")) > ROUNDS / 20, outcomes
    assert not list(checkout.root.rglob("pwned*"))
    assert not Path("pwned").exists()


def test_damaged_bytes_of_a_recipe_end_in_an_error_with_its_place(checkout: Checkout) -> None:
    dice = random.Random(21)
    raw = RECIPE.encode()
    for _ in range(ROUNDS):
        damaged = bytearray(raw)
        for _ in range(dice.randint(1, 8)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        (checkout.root / "recipes" / "r.yml").write_bytes(bytes(damaged[: dice.randint(1, len(damaged))]))
        try:
            open_recipe("r")
        except SpecdeckError as error:
            said(error)


@pytest.mark.parametrize("role", ["target", "drafter"])
def test_damaged_values_of_a_config_are_found_or_left_unchecked(role: str, checkout: Checkout) -> None:
    loaded = open_recipe("r")
    dice = random.Random(role)
    configs = {"target": TARGET, "drafter": DRAFTER}
    families = [case.target for case in CASES.values() if "architectures" in case.target]
    for _ in range(CONFIGS):
        damaged = json.loads(json.dumps(configs))
        damaged["target"]["architectures"] = dice.choice(families)["architectures"]
        for _ in range(dice.randint(1, 4)):
            damaged[role] = mutated(damaged[role], dice) or configs[role]
        facts = {name: CheckpointFacts(name, config) for name, config in damaged.items()}
        report = check_loaded(loaded, facts=facts)
        json.dumps(plain(report))
        assert all(found.where for found in report.found)


def test_damaged_bytes_of_a_config_end_in_an_error_with_its_file(checkout: Checkout) -> None:
    loaded = open_recipe("r")
    path = checkout.root / "models" / "target" / "config.json"
    dice = random.Random(22)
    raw = json.dumps(TARGET, indent=1).encode()
    errors = 0
    for _ in range(CONFIGS):
        damaged = bytearray(raw)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            check_loaded(loaded, facts=gather(loaded.model, checkout.root))
        except SpecdeckError as error:
            errors += 1
            said(error)
    assert errors > CONFIGS / 10


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"a": NaN', '{"a": ' * 100_000, '{"a": ' + "9" * 10_000 + "}", "\ufeff{}", "{}\x00"],
)
def test_files_that_are_no_config_are_refused_by_name(text: str, checkout: Checkout) -> None:
    (checkout.root / "models" / "target" / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(SpecdeckError) as caught:
        gather(open_recipe("r").model, checkout.root)
    assert "config.json" in str(caught.value.where)
