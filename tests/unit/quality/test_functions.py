"""Functions of a server: what works, what fails and what the model lacks are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specdeck.quality.asking import AskError, Reply, read_reply
from specdeck.quality.functions import Functions, Seen, _chat, _choice, _json_schema, _logprobs, _long_output, _stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from specdeck.results.quality import CheckResult

from types import SimpleNamespace


def reply(text: str = "one two three four five", **changes: Any) -> Reply:
    fields: dict[str, Any] = {
        "text": text,
        "reasoning": "",
        "finish_reason": "stop",
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "cached_tokens": None,
        "tokens": (1, 2),
        "chosen": None,
        "top": None,
        "steps": None,
        "accepted": None,
    }
    return Reply(**{**fields, **changes})


def job(answer: Reply) -> Any:
    """A job whose server gives this answer to everything."""

    async def ask(*_: object, **__: object) -> Reply:
        return answer

    prompt = SimpleNamespace(messages=None, text="a question")
    return SimpleNamespace(asker=SimpleNamespace(ask=ask), prompts=(prompt,), max_model_len=2048, quick=True)


def judged(**functions: str) -> CheckResult:
    return Functions().judge("mtp", Seen(functions=functions), None, None)


@pytest.mark.parametrize(
    ("attempt", "answer", "said"),
    [
        (_chat, reply(), "ok"),
        (_chat, reply(" "), "the answer is empty"),
        (_chat, reply(finish_reason="abort"), "finish_reason"),
        (_stop, reply("one two "), "ok"),
        (_stop, reply("one two three"), "is in the answer"),
        (_stop, reply("one two ", finish_reason="length"), "finish_reason"),
        (_stop, reply("something else "), "another one"),
        (_logprobs, reply(chosen=("a", "b"), top=({"a": -0.1, "c": -3.0}, {"b": -0.2})), "ok"),
        (_logprobs, reply(), "none came"),
        (_logprobs, reply(chosen=("a",), top=({"a": -0.1},)), "1 of 2 tokens"),
        (_logprobs, reply(chosen=("a", "b"), top=({"a": -3.0, "c": -0.1}, {"b": -0.2})), "not the likeliest"),
        (_logprobs, reply(chosen=("a", "b"), top=({"a": 0.5}, {"b": -0.2})), "above 0"),
        (_long_output, reply(completion_tokens=128, finish_reason="length"), "ok"),
        (_long_output, reply(completion_tokens=90, finish_reason="stop"), "90 of 128"),
        (_choice, reply("yes"), "ok"),
        (_choice, reply("perhaps"), "is none of"),
        (_json_schema, reply('{"answer": "no"}'), "ok"),
        (_json_schema, reply('{"answer": "perhaps"}'), "not of the schema"),
        (_json_schema, reply("no"), "no JSON"),
    ],
)
async def test_an_answer_is_judged_as_what_it_is(
    attempt: Callable[[Any, Reply], Awaitable[str]], answer: Reply, said: str
) -> None:
    plain = answer if attempt is _chat else reply()
    told = await attempt(job(answer), plain)
    assert said in told
    assert told == "ok" or told.startswith("failed: ")


def test_one_function_that_failed_fails_the_check_and_is_named() -> None:
    result = judged(chat="ok", stop="failed: it goes on", tool_calls="skipped: no parser")
    assert (result.verdict, result.n, result.value) == ("fail", 2, 0.5)
    assert result.reason == "stop failed: it goes on"


def test_what_the_model_lacks_is_no_failure_and_nothing_tried_is_no_success() -> None:
    assert judged(chat="ok", tool_calls="skipped: no parser").verdict == "pass"
    assert judged(tool_calls="skipped: no parser").verdict == "unmeasurable"


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"message": None}], "usage": {"prompt_tokens": 1}}])
def test_what_vllm_never_sends_is_no_reply(body: dict[str, Any]) -> None:
    with pytest.raises(AskError, match="not what vLLM sends"):
        read_reply(body, "chat")
