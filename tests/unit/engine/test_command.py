"""The command is what the recipe says, as a list of words: no shell, no secret, nothing of the host by accident."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkout import RECIPE

from specdeck.engine.command import EngineCommand, build_command, option
from specdeck.errors import SpecdeckError
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from support.checkout import Checkout

PYTHON = Path("/opt/engine/bin/python")


def command(checkout: Checkout, arm: str = "none", **other: Any) -> EngineCommand:
    arguments: dict[str, Any] = {"python": None, "host": "127.0.0.1", "port": 8000, "root": checkout.root} | other
    return build_command(load_recipe("r"), arm, **arguments)


def after(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def refused(checkout: Checkout, arm: str = "none", **other: Any) -> SpecdeckError:
    with pytest.raises(SpecdeckError) as caught:
        command(checkout, arm, **other)
    assert caught.value.fix
    return caught.value


def test_the_managed_engine_is_started_by_its_own_interpreter(checkout: Checkout) -> None:
    argv = command(checkout).argv
    root = checkout.root
    assert argv == (
        f"{root}/.venv-engine/bin/python", "-m", "vllm.entrypoints.openai.api_server",
        "--model", f"{root}/models/target",
        "--served-model-name", "r",
        "--host", "127.0.0.1",
        "--port", "8000",
        "--max-model-len", "2048",
    )  # fmt: skip


def test_another_interpreter_is_started_by_vllms_own_command(checkout: Checkout) -> None:
    checkout.recipe("r", RECIPE.replace("cpu, class", "cuda, gpus: 1, class").replace(", environment: cpu", ""))
    argv = command(checkout, python=PYTHON).argv
    assert argv[:5] == (str(PYTHON), "-m", "vllm.entrypoints.cli.main", "serve", f"{checkout.root}/models/target")


def test_each_arm_says_its_method_and_number_of_tokens(checkout: Checkout) -> None:
    assert "--speculative-config" not in command(checkout).argv
    assert json.loads(after(command(checkout, "mtp").argv, "--speculative-config")) == {
        "method": "mtp",
        "num_speculative_tokens": 3,
    }
    assert json.loads(after(command(checkout, "dflash2").argv, "--speculative-config")) == {
        "method": "dflash",
        "model": f"{checkout.root}/models/drafter",
        "num_speculative_tokens": 7,
    }


def test_revisions_and_other_speculative_keys_are_passed(checkout: Checkout) -> None:
    pinned = "a" * 40
    text = RECIPE.replace("{path: models/target}", f"{{repo: o/t, revision: {pinned}}}")
    text = text.replace("{path: models/drafter}", f"{{repo: o/d, revision: {pinned}}}")
    text = text.replace(
        "tokens: 7}", "tokens: 7, draft_sample_method: probabilistic, speculative: {attention_backend: X}}"
    )
    checkout.recipe("r", text)
    built = command(checkout, "dflash2")
    assert after(built.argv, "--revision") == pinned
    assert json.loads(after(built.argv, "--speculative-config")) == {
        "method": "dflash",
        "model": "o/d",
        "revision": pinned,
        "num_speculative_tokens": 7,
        "draft_sample_method": "probabilistic",
        "attention_backend": "X",
    }
    assert "HF_HUB_OFFLINE" not in {k: v for k, v in built.env.items() if v == "no"}
    assert "HF_TOKEN" in built.passed_on


def test_local_checkpoints_never_reach_for_the_network(checkout: Checkout) -> None:
    built = command(checkout, "dflash2")
    assert built.env["HF_HUB_OFFLINE"] == "1"
    assert "HF_TOKEN" not in built.passed_on


def test_per_request_metrics_are_asked_for_only_where_something_drafts(checkout: Checkout) -> None:
    checkout.recipe("r", RECIPE.replace("serve:\n", "serve:\n  per_request_spec_decode_metrics: detailed\n"))
    assert "--per-request-spec-decode-metrics" not in command(checkout).argv
    assert after(command(checkout, "mtp").argv, "--per-request-spec-decode-metrics") == "detailed"


def test_an_overlay_takes_the_place_of_a_checkpoint_and_is_demanded_when_named(checkout: Checkout) -> None:
    checkout.recipe("r", RECIPE + "overlays: {drafter: positions-512k}\n")
    assert "overlay 'positions-512k'" in refused(checkout, "dflash2").what
    command(checkout, "mtp")
    built = command(checkout, "dflash2", folders={"drafter": Path("/overlays/one")})
    assert json.loads(after(built.argv, "--speculative-config"))["model"] == "/overlays/one"


def test_missing_drafter_files_stop_only_the_arm_that_needs_them(checkout: Checkout) -> None:
    (checkout.root / "models" / "drafter" / "model.safetensors").unlink()
    command(checkout, "mtp")
    assert "no *.safetensors" in refused(checkout, "dflash2").what


def test_an_unknown_or_unavailable_arm_is_refused_with_the_ones_there_are(checkout: Checkout) -> None:
    assert "dflash2" in str(refused(checkout, "dflash").fix)
    checkout.recipe("r", RECIPE.replace("tokens: 7}", 'tokens: 7, unavailable: "needs sm90"}'))
    error = refused(checkout, "dflash2")
    assert "needs sm90" in error.what
    assert "none, mtp" in str(error.fix)


def test_a_container_recipe_says_how_to_run_it_without_one(checkout: Checkout) -> None:
    checkout.recipe("r", RECIPE.replace("runtime: local, environment: cpu", "runtime: docker"))
    error = refused(checkout)
    assert "--runtime local --python" in str(error.fix)
    assert command(checkout, python=PYTHON).argv[0] == str(PYTHON)


def test_only_named_variables_of_the_host_reach_the_server(checkout: Checkout) -> None:
    built = command(checkout)
    host = {"PATH": "/bin", "HOME": "/h", "VLLM_USE_V2_MODEL_RUNNER": "0", "SECRET": "x", "CUDA_VISIBLE_DEVICES": "1"}
    env = built.process_env(host)
    assert env["HOME"] == "/h"
    assert env["CUDA_VISIBLE_DEVICES"] == "1"
    assert "VLLM_USE_V2_MODEL_RUNNER" not in env
    assert "SECRET" not in env
    assert env["PATH"] == f"{checkout.root}/.venv-engine/bin:/bin"
    assert env["TRITON_INTERPRET"] == "1"


def test_the_recipes_variables_win_over_the_engines_and_the_arms_over_both(checkout: Checkout) -> None:
    text = RECIPE.replace("serve:\n", "serve:\n  env: {OMP_NUM_THREADS: '2', A: '1', LANG: C}\n")
    checkout.recipe("r", text.replace("tokens: 3}", "tokens: 3, serve: {env: {A: '2'}}}"))
    assert command(checkout).env["OMP_NUM_THREADS"] == "2"
    assert command(checkout).env["A"] == "1"
    assert command(checkout, "mtp").env["A"] == "2"
    assert command(checkout).process_env({"LANG": "de_DE"})["LANG"] == "C"


def test_an_api_key_is_passed_by_name_only_when_it_is_asked_for(checkout: Checkout) -> None:
    assert "VLLM_API_KEY" not in command(checkout).passed_on
    built = command(checkout, api_key=True)
    shell = built.shell({"VLLM_API_KEY": "sesame"})
    assert 'VLLM_API_KEY="$VLLM_API_KEY"' in shell
    assert "sesame" not in shell + str(built)
    assert built.process_env({"VLLM_API_KEY": "sesame"})["VLLM_API_KEY"] == "sesame"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, ["--some-option", "3"]),
        (0.5, ["--some-option", "0.5"]),
        (True, ["--some-option"]),
        (False, ["--no-some-option"]),
        (None, []),
        ("text", ["--some-option", "text"]),
        ("--flag", ["--some-option=--flag"]),
        (["a", "b"], ["--some-option", "a", "b"]),
        ([True, 1], ["--some-option", "true", "1"]),
        ([], []),
        ({"a": [1, None]}, ["--some-option", '{"a":[1,null]}']),
    ],
)
def test_an_option_is_written_as_vllms_parser_reads_it(value: Any, words: list[str]) -> None:
    assert option("some_option", value) == words


@settings(max_examples=40, deadline=None)
@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30))
def test_no_value_can_become_another_word_of_a_shell(value: str) -> None:
    built = EngineCommand(
        argv=("/usr/bin/env", "printf", r"%s\0", *option("x", value), *option("y", [value, "z"])),
        env={"A": value},
        passed_on=(),
        served_model="m",
        arm="none",
        host="127.0.0.1",
        port=1,
    )
    shown = built.shell({}).replace(
        "/usr/bin/env printf", """/usr/bin/env sh -c 'printf "%s\\0" "$A"; "$@"' sh printf"""
    )
    done = subprocess.run(["sh", "-c", shown], capture_output=True, check=True)
    words = done.stdout.decode().split("\0")[:-1]
    assert words == [value, *built.argv[3:]]


def test_the_printed_command_runs_as_printed(checkout: Checkout, tmp_path: Path) -> None:
    fake = tmp_path / "a bin" / "python"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "A=$A" "HOME=$HOME" "STRAY=$STRAY"\n')
    fake.chmod(0o755)
    checkout.recipe("r", RECIPE.replace("serve:\n", 'serve:\n  env: {A: "it\'s $HOME"}\n  hf_overrides: {a: "\'"}\n'))
    built = command(checkout, "dflash2", python=fake)
    host = {"HOME": "/home/me", "STRAY": "x", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", built.shell(host)], env=host, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-3:] == ["A=it's $HOME", "HOME=/home/me", "STRAY="]
    assert tuple(lines[:-3]) == built.argv[1:]
