"""What vLLM's log says about the engine it started: architectures, drafter, draft length, layers, pool. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_ARCHITECTURE = re.compile(r"Resolved architecture: (\w+)")
_AUX = re.compile(r"Using (?:Eagle3 )?auxiliary layers from (?:speculative )?(?:config|model): [(\[]([\d, ]*)[)\]]")
_SPECULATIVE = re.compile(
    r"speculative_config=(?:None|SpeculativeConfig\(method='(?P<method>[^']*)', model=.*?, "
    r"num_spec_tokens=(?P<n>\d+)\))"
)
_ENGINE = re.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^)]+)\)")
_POOL = re.compile(r"KV cache size: ([\d,]+) tokens")
_BLOCK = re.compile(r"Setting attention block size to (\d+) tokens")


@dataclass(frozen=True)
class LogFacts:
    """What the server's log says about itself; None where it says nothing."""

    architectures: tuple[str, ...] = ()
    engine_started: bool = False
    method: str | None = None
    num_speculative_tokens: int | None = None
    aux_layer_ids: tuple[int, ...] | None = None
    version: str | None = None
    v2_runner: bool = False
    kv_cache_tokens: int | None = None
    attention_block_size: int | None = None

    @property
    def drafter_architecture(self) -> str | None:
        """The architecture resolved after the target's; None when there is one only."""
        others = [name for name in self.architectures if name != self.architectures[0]]
        return others[0] if others else None


def read_log(lines: Iterable[str]) -> LogFacts:
    """Collect what a log says. Later lines win: a server that restarts its engine says it again."""
    found: dict[str, Any] = {"architectures": []}
    for line in lines:
        if match := _ARCHITECTURE.search(line):
            if match[1] not in found["architectures"]:
                found["architectures"].append(match[1])
        elif match := _ENGINE.search(line):
            found |= {
                "engine_started": True,
                "version": match["version"],
                "method": None,
                "num_speculative_tokens": None,
            }
            if (spec := _SPECULATIVE.search(line)) and spec["method"]:
                found |= {"method": spec["method"], "num_speculative_tokens": int(spec["n"])}
        elif match := _AUX.search(line):
            found["aux_layer_ids"] = tuple(int(word) for word in match[1].replace(",", " ").split())
        elif "Using V2 Model Runner" in line:
            found["v2_runner"] = True
        elif match := _POOL.search(line):
            found["kv_cache_tokens"] = int(match[1].replace(",", ""))
        elif match := _BLOCK.search(line):
            found["attention_block_size"] = int(match[1])
    return LogFacts(**{**found, "architectures": tuple(found["architectures"])})
