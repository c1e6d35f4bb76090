"""Whether the server's functions work: chat, stop strings, log probabilities, streams, structure, tools, reasoning.

Each function is tried by itself and is `ok`, `failed: why` or `skipped: why`; one that failed fails the check.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from specdeck.load.client import Target
from specdeck.load.loop import run_load
from specdeck.quality.asking import AskError
from specdeck.quality.check import prompt_part
from specdeck.results.quality import CheckResult
from specdeck.results.schema import Sampling, Strict
from specdeck.stats.proportion import wilson

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from specdeck.quality.asking import Reply
    from specdeck.quality.check import Job, Verdict
    from specdeck.recipe import Recipe

OK = "ok"
MAX_TOKENS, LONG, QUICK_LONG = 48, 512, 128
STRUCTURED_TOKENS = 128
SETTLE_S = 30.0
CHOICES = ["yes", "no"]
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "enum": CHOICES}},
    "required": ["answer"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Skipped(Exception):  # noqa: N818 - nothing went wrong
    """The model has no such function; the message says why."""


class Seen(Strict, frozen=True, kw_only=True):
    """Function to `ok`, `failed: why` or `skipped: why`."""

    functions: dict[str, str]


class Functions:
    """Tries every function of the server that its recipe says it has."""

    name = "functions"
    title = "chat, stop, logprobs, streams, structured output, tools, reasoning"
    seen = Seen
    death: Verdict = "fail"

    async def observe(self, job: Job) -> Seen:
        """Try each function; a request that the server refuses is that function's failure."""
        tries: dict[str, Callable[[Job, Reply], Awaitable[str]]] = {
            "chat": _chat,
            "stop": _stop,
            "logprobs": _logprobs,
            "stream": _stream,
            "long_output": _long_output,
            "cancel": _cancel,
            "choice": _choice,
            "json_schema": _json_schema,
            "tool_calls": _tool_calls,
            "reasoning": _reasoning,
        }
        done = job.counter("functions", len(tries))
        plain = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=MAX_TOKENS)
        found: dict[str, str] = {}
        for name, attempt in tries.items():
            try:
                found[name] = await attempt(job, plain)
            except Skipped as reason:
                found[name] = f"skipped: {reason}"
            except AskError as error:
                if error.kind == "lost":
                    raise
                found[name] = f"failed: {error.message}"
            done()
        return Seen(functions=found)

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail when any function failed."""
        del base, recipe
        tried = {name: told for name, told in seen.functions.items() if not told.startswith("skipped")}
        bad = [f"{name} {told}" for name, told in tried.items() if told != OK]
        return CheckResult(
            check=self.name,
            arm=arm,
            verdict="unmeasurable" if not tried else "fail" if bad else "pass",
            n=len(tried),
            value=(len(tried) - len(bad)) / len(tried) if tried else None,
            unit="share of functions that work",
            interval=wilson(len(tried) - len(bad), len(tried)),
            reason="; ".join(bad) or (None if tried else "no function could be tried"),
            details={"functions": seen.functions},
        )


async def _chat(job: Job, plain: Reply) -> str:
    del job
    if not plain.whole.strip():
        return "failed: the answer is empty"
    return OK if plain.finish_reason in ("stop", "length") else f"failed: finish_reason {plain.finish_reason!r}"


async def _stop(job: Job, plain: Reply) -> str:
    words = plain.text.split()
    if len(words) < 3:
        raise Skipped("the answer has fewer than three words")
    word = words[len(words) // 2]
    reply = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=MAX_TOKENS, stop=[word])
    if reply.finish_reason != "stop":
        return f"failed: finish_reason {reply.finish_reason!r} with stop {word!r}"
    if word in reply.text:
        return f"failed: the stop string {word!r} is in the answer"
    # What comes before the stop string is that of an unstopped answer, but for near ties.
    return (
        OK if plain.text.startswith(reply.text[: len(reply.text) // 2]) else "failed: the stopped text is another one"
    )


async def _logprobs(job: Job, plain: Reply) -> str:
    del plain
    reply = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=MAX_TOKENS, top=2)
    if not reply.chosen or not reply.top:
        return "failed: none came"
    if len(reply.chosen) != reply.completion_tokens:
        return f"failed: {len(reply.chosen)} of {reply.completion_tokens} tokens have some"
    for at, (token, candidates) in enumerate(zip(reply.chosen, reply.top, strict=True)):
        if max(candidates.values()) > 0:
            return f"failed: token {at} has a log probability above 0"
        if candidates[token] < max(candidates.values()):
            return f"failed: token {at} is not the likeliest one although the answer is greedy"
    return OK


async def _stream(job: Job, plain: Reply) -> str:
    target = Target(job.asker.base_url, job.asker.model, api_key=job.server.api_key)
    sampling = Sampling(temperature=0.0, max_tokens=MAX_TOKENS)
    load = await run_load(target, job.prompts[:1], concurrency=1, sampling=sampling, request_timeout_s=SETTLE_S * 10)
    record = load.records[0]
    if record.error is not None:
        return f"failed: {record.error.message}"
    if record.completion_tokens is None or record.finish_reason is None:
        return "failed: the stream has no usage or no finish_reason"
    half = len(plain.text) // 2  # near ties may part the rest
    return OK if record.text[:half] == plain.text[:half] else "failed: a streamed answer is another one"


async def _long_output(job: Job, plain: Reply) -> str:
    room = (job.max_model_len or LONG * 4) - plain.prompt_tokens - 16
    wanted = min(QUICK_LONG if job.quick else LONG, room)
    reply = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=wanted, ignore_eos=True)
    if reply.completion_tokens != wanted or reply.finish_reason != "length":
        return f"failed: {reply.completion_tokens} of {wanted} tokens, finish_reason {reply.finish_reason!r}"
    return OK


async def _cancel(job: Job, plain: Reply) -> str:
    del plain
    task = asyncio.ensure_future(job.asker.ask(prompt_part(job.prompts[0]), max_tokens=LONG, ignore_eos=True))
    await asyncio.sleep(1.0)  # into the middle of the answer
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for _ in range(int(SETTLE_S * 2)):
        if (await job.asker.snapshot()).running == 0:
            break
        await asyncio.sleep(0.5)
    else:
        return f"failed: the cancelled request still runs after {SETTLE_S:.0f} s"
    again = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=MAX_TOKENS)
    return OK if again.whole.strip() else "failed: the next answer is empty"


async def _choice(job: Job, plain: Reply) -> str:
    del plain
    reply = await job.asker.ask(
        prompt_part(job.prompts[0]), max_tokens=STRUCTURED_TOKENS, structured_outputs={"choice": CHOICES}
    )
    return OK if reply.text in CHOICES else f"failed: {reply.text[:80]!r} is none of {CHOICES}"


async def _json_schema(job: Job, plain: Reply) -> str:
    del plain
    schema: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    reply = await job.asker.ask(prompt_part(job.prompts[0]), max_tokens=STRUCTURED_TOKENS, response_format=schema)
    if reply.finish_reason == "length" and not reply.text.strip().endswith("}"):
        raise Skipped(f"the model fills {STRUCTURED_TOKENS} tokens without ending its object")
    try:
        found = json.loads(reply.text)
    except ValueError:
        return f"failed: no JSON: {reply.text[:80]!r}"
    sound = isinstance(found, dict) and found.keys() == {"answer"} and found["answer"] in CHOICES
    return OK if sound else f"failed: not of the schema: {reply.text[:80]!r}"


async def _tool_calls(job: Job, plain: Reply) -> str:
    del plain
    serve = job.recipe.serve_of(job.arm) if job.recipe and job.arm in job.recipe.arms else None
    if serve is None or not serve.tool_call_parser:
        raise Skipped("the recipe names no tool_call_parser")
    question = {"messages": [{"role": "user", "content": "What is the weather in Oslo? Use the tool."}]}
    reply = await job.asker.ask(question, max_tokens=LONG, tools=[TOOL])
    calls = reply.raw["choices"][0]["message"].get("tool_calls") or []
    if reply.finish_reason != "tool_calls" or not calls:
        return f"failed: {len(calls)} calls, finish_reason {reply.finish_reason!r}"
    try:
        arguments = json.loads(calls[0]["function"]["arguments"])
    except (ValueError, KeyError, TypeError) as error:
        return f"failed: arguments that are no JSON ({type(error).__name__})"
    return OK if isinstance(arguments, dict) and arguments.get("city") else f"failed: arguments {arguments!r}"


async def _reasoning(job: Job, plain: Reply) -> str:
    serve = job.recipe.serve_of(job.arm) if job.recipe and job.arm in job.recipe.arms else None
    if serve is None or not serve.reasoning_parser:
        raise Skipped("the recipe names no reasoning_parser")
    if "<think>" in plain.text or "</think>" in plain.text:
        return "failed: reasoning marks are in the content"
    return OK if plain.reasoning else "failed: no reasoning was told apart"
