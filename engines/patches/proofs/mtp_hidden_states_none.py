"""Proves that both call sites keep the target's hidden states where there is no buffer, and slice a buffer there is."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from statements import read, run, statements


class States(list[int]):
    """Hidden states of some tokens."""

    @property
    def shape(self) -> tuple[int]:
        """As a tensor's."""
        return (len(self),)

    def size(self, _axis: int) -> int:
        """As a tensor's."""
        return len(self)


sites = statements(
    read("vllm/v1/worker/gpu/model_runner.py"),
    lambda text: text == "hasattr(self.model, 'get_mtp_target_hidden_states')",
)
if len(sites) != 2:
    print(f"there are {len(sites)} call sites of get_mtp_target_hidden_states, and 2 were expected")
    sys.exit(2)
own = States([1, 2, 3])
for site in sites:
    for buffer, expected in ((None, own), (States([7, 8, 9, 0, 0]), [7, 8, 9])):
        model = SimpleNamespace(get_mtp_target_hidden_states=lambda buffer=buffer: buffer)
        names: dict[str, Any] = {
            "self": SimpleNamespace(model=model),
            "hidden_states": own,
            "draft_hidden_states": own,
            "spec_hidden_states": own,
        }
        if run([site], names)["spec_hidden_states"] != expected:
            print(f"line {site.lineno}: wrong hidden states for the buffer {buffer}")
            sys.exit(1)
