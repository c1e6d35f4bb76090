"""The loopback server's counters, in vLLM's names, so that a client can be tried as a whole against a known truth."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from specdeck.load.loopback.shape import MODEL, PROMPT_TOKENS

TTFT_BOUNDS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""Upper bounds of the TTFT histogram, as vLLM 0.32 has them up to 80 s."""


@dataclass
class Counted:
    """What finished requests add up to. `started_at`: Unix seconds."""

    started_at: float
    requests: int = 0
    generation_tokens: int = 0
    ttft_sum_s: float = 0.0
    ttft: list[int] = field(default_factory=lambda: [0] * (len(TTFT_BOUNDS_S) + 1))

    def finished(self, tokens: int, ttft_s: float | None) -> None:
        """Count one whole answer."""
        self.requests += 1
        self.generation_tokens += tokens
        if ttft_s is not None:
            self.ttft_sum_s += ttft_s
            self.ttft[bisect_left(TTFT_BOUNDS_S, ttft_s)] += 1

    def exposition(self, running: int) -> bytes:
        """The text of /metrics."""
        label = f'engine="0",model_name="{MODEL}"'
        name = "vllm:time_to_first_token_seconds"
        lines = [
            f"process_start_time_seconds {self.started_at}",
            f"vllm:num_requests_running{{{label}}} {running}",
            f"vllm:num_requests_waiting{{{label}}} 0",
            f"vllm:prompt_tokens_total{{{label}}} {self.requests * PROMPT_TOKENS}",
            f"vllm:generation_tokens_total{{{label}}} {self.generation_tokens}",
            f'vllm:request_success_total{{finished_reason="length",{label}}} {self.requests}',
            f"{name}_sum{{{label}}} {self.ttft_sum_s!r}",
            f"{name}_count{{{label}}} {sum(self.ttft)}",
        ]
        reached = 0
        for bound, count in zip((*TTFT_BOUNDS_S, "+Inf"), self.ttft, strict=True):
            reached += count
            lines.append(f'{name}_bucket{{le="{bound}",{label}}} {reached}')
        return "\n".join([*lines, ""]).encode()
