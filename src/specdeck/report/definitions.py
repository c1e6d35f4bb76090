"""What each number means, in a sentence. docs/method.md has the formulas and what each interval covers."""

from __future__ import annotations

DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("acceptance length", "1 + accepted tokens / drafts: tokens a verification step emits, the bonus token included."),
    ("drafts accepted", "Accepted tokens / drafted tokens (the draft acceptance rate)."),
    (
        "acceptance by position",
        "Share of drafts in which the token at that position was accepted; the shares sum to acceptance length − 1.",
    ),
    (
        "output tok/s",
        "Completion tokens by usage / duration of the cell, summed over rounds; in brackets the slowest and the "
        "fastest round.",
    ),
    (
        "ratio",
        "Output tok/s divided by the baseline's at the same concurrency, over the rounds that both have; the interval "
        "pairs the arms by prompt.",
    ),
    (
        "step, break-even length",
        "Decoding time (first to last token) / verification steps, summed over requests; the arm's over the baseline's "
        "is the acceptance length from which its decoding is faster.",
    ),
    ("TTFT", "Time to first token: from the moment the schedule wanted the request sent to its first token."),
    ("TPOT", "Time per output token: (last token − first token) / (completion tokens − 1), for each request."),
    (
        "goodput",
        "Requests that met every limit of the plan, a second; the share is of all requests, failed ones included.",
    ),
    ("knee", "The smallest measured concurrency that reaches 95 % of an arm's highest output tok/s."),
    ("p50, p99", "Percentiles over requests, linear interpolation between ranks."),
    ("prefix hits", "Tokens found in the prefix cache / tokens looked up, by the server's counters."),
    (
        "same text",
        "Share of answers equal, to the character, to the baseline's for the same prompt, round and concurrency.",
    ),
    (
        "95 % interval",
        "Cluster bootstrap over prompts, each with all its rounds. It covers the choice of prompts, not another host, "
        "another server start or another kind of prompt. Shown from six prompts on.",
    ),
    ("–", "Not available. It is never written as 0."),
)
