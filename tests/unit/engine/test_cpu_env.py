"""The CPU engine's variables: each once, each with its reason, none a secret."""

from __future__ import annotations

from specdeck.engine.cpu_env import CPU_VARIABLES, cpu_environment


def test_interpreter_and_offline_mode_are_on() -> None:
    found = cpu_environment()
    assert found["TRITON_INTERPRET"] == "1"
    assert found["HF_HUB_OFFLINE"] == "1"


def test_every_variable_is_named_once_and_explained() -> None:
    names = [variable.name for variable in CPU_VARIABLES]
    assert len(set(names)) == len(names) == len(cpu_environment())
    assert all(variable.why and variable.value for variable in CPU_VARIABLES)
