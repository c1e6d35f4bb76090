"""The tiny pair as committed: intact, in the engine's layout, with a grammar whose splits and checks can be trusted."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import re
import string
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAIR = ROOT / "models" / "tiny-next"
PROMPTS = ROOT / "bench" / "prompts"

sys.path.insert(0, str(PAIR))
grammar = importlib.import_module("train.grammar")
layout = importlib.import_module("train.layout")
prompt_files = importlib.import_module("train.prompts")
served = importlib.import_module("train.served")
sys.path.remove(str(PAIR))


def read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: its length in eight bytes, then JSON."""
    data = path.read_bytes()
    parsed: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    parsed.pop("__metadata__", None)
    return parsed


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor["shape"]) for name, tensor in header(path).items()}


@pytest.fixture
def pair() -> tuple[dict[str, Any], dict[str, tuple[int, ...]], dict[str, Any], dict[str, tuple[int, ...]]]:
    """Configuration and tensor shapes of the target, then of the drafter."""
    target, drafter = PAIR / "target", PAIR / "drafter"
    return (
        read_json(target / "config.json"),
        shapes(target / "model.safetensors"),
        read_json(drafter / "config.json"),
        shapes(drafter / "model.safetensors"),
    )


def test_every_file_of_the_pair_has_its_recorded_hash() -> None:
    lines = [line.split("  ", 1) for line in (PAIR / "SHA256SUMS").read_text().splitlines()]
    recorded = {name: digest for digest, name in lines}
    found = {
        path.relative_to(PAIR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("target", "drafter")
        for path in (PAIR / part).iterdir()
    }
    assert found == recorded


def test_the_model_card_names_the_hashes_of_the_weights() -> None:
    weights = [line for line in (PAIR / "SHA256SUMS").read_text().splitlines() if line.endswith(".safetensors")]
    card = (PAIR / "README.md").read_text(encoding="utf-8")
    assert len(weights) == 2
    assert all(line in card for line in weights)


def test_both_checkpoints_together_stay_under_8_mb() -> None:
    files = [path for part in ("target", "drafter") for path in (PAIR / part).iterdir()]
    assert 1_000_000 < sum(path.stat().st_size for path in files) <= 8_000_000


def test_no_folder_name_makes_the_engine_guess_a_method() -> None:
    assert not [path for path in PAIR.rglob("*") if path.is_dir() and "dflash" in path.name.lower()]


def test_tensors_and_configurations_are_what_the_engine_loads(pair: tuple[Any, ...]) -> None:
    layout.require_layout(*pair)


def test_all_weights_are_bfloat16() -> None:
    for part in ("target", "drafter"):
        assert {tensor["dtype"] for tensor in header(PAIR / part / "model.safetensors").values()} == {"BF16"}


@pytest.mark.parametrize(
    ("tensor", "shape", "message"),
    [
        ("layers.0.mlp_conv.base_kernel", None, "missing: layers.0.mlp_conv.base_kernel"),
        ("lm_head.weight", (1536, 128), "not loaded by the engine: lm_head.weight"),
        ("fc.weight", (128, 256), "fc.weight: shape (128, 256), the engine expects (128, 384)"),
    ],
)
def test_a_drafter_in_another_layout_is_refused(
    pair: tuple[Any, ...], tensor: str, shape: tuple[int, ...] | None, message: str
) -> None:
    target_config, target, drafter_config, drafter = pair
    changed = {name: value for name, value in drafter.items() if name != tensor} | ({tensor: shape} if shape else {})
    with pytest.raises(layout.LayoutError) as refused:
        layout.require_layout(target_config, target, drafter_config, changed)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_causal": True}, "drafter is_causal is false"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "every drafter layer slides"),
        ({"dflash_config": {"block_size": 8}}, "dflash_config.mask_token_id is missing"),
        ({"hidden_size": 256}, "hidden sizes agree"),
    ],
)
def test_a_drafter_configured_otherwise_is_refused(
    pair: tuple[Any, ...], changes: dict[str, Any], message: str
) -> None:
    target_config, target, drafter_config, drafter = pair
    with pytest.raises(layout.LayoutError) as refused:
        layout.require_layout(target_config, target, drafter_config | changes, drafter)
    assert message in str(refused.value)


def test_taps_beyond_the_target_are_refused(pair: tuple[Any, ...]) -> None:
    target_config, target, drafter_config, drafter = pair
    flash = drafter_config["dflash_config"] | {"target_layer_ids": [0, 2, 4]}
    with pytest.raises(layout.LayoutError, match="taps are layers of the target"):
        layout.require_layout(target_config, target, drafter_config | {"dflash_config": flash}, drafter)


def test_the_tokenizer_agrees_with_the_configurations() -> None:
    tokenizer = read_json(PAIR / "target" / "tokenizer.json")
    ids = tokenizer["model"]["vocab"]
    config, drafter = read_json(PAIR / "target" / "config.json"), read_json(PAIR / "drafter" / "config.json")
    assert max(ids.values()) < config["vocab_size"]
    assert ids["<|im_end|>"] == config["eos_token_id"]
    assert read_json(PAIR / "target" / "generation_config.json")["eos_token_id"] == config["eos_token_id"]
    assert ids["<|mask|>"] == drafter["dflash_config"]["mask_token_id"]


def test_digits_are_tokens_of_their_own() -> None:
    vocab = read_json(PAIR / "target" / "tokenizer.json")["model"]["vocab"]
    with_digits = {token for token in vocab if set(token) & set(string.digits)}
    assert with_digits == set(string.digits) | {f"Ġ{digit}" for digit in string.digits}


def test_the_grammar_loads_without_torch() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import train.grammar, train.layout; print('torch' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(PAIR)], check=True, timeout=60, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "False"


def test_training_and_held_out_problems_never_share_a_question() -> None:
    training = {p.question for seed in range(3) for p in itertools.islice(grammar.stream("train", seed), 4000)}
    held_out = {p.question for seed in range(3) for p in itertools.islice(grammar.stream("held-out", seed), 2000)}
    assert len(training) > 8000
    assert len(held_out) > 4000
    assert not training & held_out


def test_the_split_follows_from_the_question_alone() -> None:
    for split in ("train", "held-out"):
        assert {grammar.split_of(p.question) for p in grammar.problems(split, 5, 300)} == {split}


def test_the_same_seed_gives_the_same_problems_and_another_seed_gives_others() -> None:
    assert grammar.problems("held-out", 3, 60) == grammar.problems("held-out", 3, 60)
    assert not set(grammar.problems("held-out", 3, 60)) & set(grammar.problems("held-out", 4, 60))


def test_categories_take_turns_and_each_right_reply_passes_its_check() -> None:
    found = grammar.problems("held-out", 1, 900)
    assert [p.category for p in found[:6]] == ["math", "code", "chat"] * 2
    assert all(grammar.check(p, p.reply) for p in found)


def test_a_reply_to_another_question_fails_the_check() -> None:
    for category in grammar.CATEGORIES:
        found = grammar.problems("held-out", 1, 200, category)
        confused = sum(grammar.check(a, b.reply) for a, b in itertools.pairwise(found))
        assert confused <= 4, category


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("9 * 4 = 36. So Mara has 56 apples.", True),
        ("Total: 56 apples.\n", True),
        ("So Mara has 57 apples.", False),
        ("So Mara has 56 pears.", False),
        ("56 apples, or rather 57.", False),
        ("So Mara has 156 apples.", False),
        ("Mara has apples.", False),
        ("", False),
    ],
)
def test_a_sum_is_right_by_its_last_number_and_its_noun(text: str, right: bool) -> None:
    assert grammar.check_answer("math", "56 apples", text) is right


KEEP = """def keep_ages(ages):
    out = []
    for age in ages:
        if {test}:
            out.append(age)
    return out"""


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (KEEP.format(test="12 < age"), True),
        (KEEP.format(test="age >= 12"), False),
        (KEEP.format(test="age > 12").replace("keep_ages", "keep_prices"), False),
        (KEEP.format(test="age > 12").rsplit("\n", 1)[0], False),
        (KEEP.format(test="age > 12").rsplit(" ", 1)[0] + " [", False),
        ("import os\n" + KEEP.format(test="age > 12"), False),
        (KEEP.format(test="age > 12").replace("out.append(age)", "out.__class__(age)"), False),
        (KEEP.format(test="age > 12").replace("out.append(age)", "ages.append(age)"), False),
        (KEEP.format(test="age > 12").replace("out = []", "out = 9 ** 9 ** 9"), False),
        (KEEP.format(test="age > 12").replace("out.append(age)", "out = out * 9999"), False),
        (KEEP.format(test="age > 12").replace("for age in ages", "while 1"), False),
    ],
)
def test_a_function_is_right_by_what_it_returns(text: str, right: bool) -> None:
    assert grammar.check_answer("code", KEEP.format(test="age > 12"), text) is right


def test_a_chat_reply_must_contain_every_fact() -> None:
    answer = "Otto; sketch the old mill; the wool scarf"
    assert grammar.check_answer("chat", answer, "Hi Otto, you could sketch the old mill. Pack the wool scarf.")
    assert not grammar.check_answer("chat", answer, "Hi Otto, you could sketch the old mill. Pack the wool coat.")


def test_an_unknown_category_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown category 'poetry'"):
        grammar.check_answer("poetry", "rose", "rose")


def test_the_prompt_files_are_the_ones_that_the_trainer_writes(tmp_path: Path) -> None:
    prompt_files.write_prompts(tmp_path)
    for name in ("tiny-next.jsonl", "tiny-next-warmup.jsonl"):
        assert (PROMPTS / name).read_text() == (tmp_path / name).read_text()


def test_prompts_are_held_out_ten_a_category_and_never_warm_up_prompts() -> None:
    measured, warmup = read_lines(PROMPTS / "tiny-next.jsonl"), read_lines(PROMPTS / "tiny-next-warmup.jsonl")
    questions = [row["messages"][0]["content"] for row in measured + warmup]
    assert sorted(row["category"] for row in measured) == sorted(list(grammar.CATEGORIES) * 10)
    assert len(warmup) == 6
    assert len({row["id"] for row in measured + warmup}) == len(set(questions)) == 36
    assert {grammar.split_of(question) for question in questions} == {"held-out"}


REPLIES = {p.question: "" if p.category == "chat" else p.reply for p in grammar.problems("held-out", 7, 9)}


class RightExceptChat(BaseHTTPRequestHandler):
    """Right on the held-out problems of seed 7 but silent in chat; accepts two and then none of three drafts."""

    def _send(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._send({"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        content = REPLIES[asked["messages"][0]["content"]]
        drafted = {"speculative_decoding": {"per_step_accepted": [2, 0], "num_spec_tokens": 3}}
        self._send({"choices": [{"message": {"content": content}}], "metrics": drafted})

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), RightExceptChat) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_server_is_judged_by_its_answers_its_payload_and_another_arms_text(server: str, tmp_path: Path) -> None:
    replies = tmp_path / "replies.json"
    served.check_server(server, seed=7, count=9, max_tokens=96, save=replies, against=None)
    lines = served.check_server(server, seed=7, count=9, max_tokens=96, save=None, against=replies)
    assert lines == [
        "right answers: 6 of 9 (math 3 of 3, code 3 of 3, chat 0 of 3)",
        "acceptance length 2.000 over 18 drafts (math 2.000, code 2.000, chat 2.000); by position 0.500 0.500 0.000",
        f"same text as in {replies}: 9 of 9",
    ]


def test_the_texts_for_perplexity_are_those_the_grammar_makes_and_held_out(tmp_path: Path) -> None:
    prompt_files.write_texts(tmp_path)
    committed = ROOT / "bench" / "texts" / "tiny-next.jsonl"
    assert (tmp_path / "tiny-next.jsonl").read_bytes() == committed.read_bytes()
    for line in committed.read_text().splitlines():
        question = json.loads(line)["context"].removeprefix("<|im_start|>user\n").split("<|im_end|>")[0]
        assert grammar.split_of(question) == "held-out"


def test_the_questions_with_right_answers_are_those_the_grammar_makes_held_out_and_sound(tmp_path: Path) -> None:
    prompt_files.write_questions(tmp_path)
    committed = ROOT / "bench" / "questions" / "tiny-next.jsonl"
    assert (tmp_path / "tiny-next.jsonl").read_bytes() == committed.read_bytes()
    for line in committed.read_text().splitlines():
        row = json.loads(line)
        worked, _, number = row["answer"].partition("\n#### ")
        assert grammar.split_of(row["question"]) == "held-out"
        assert re.findall(r"\d+", worked)[-1] == number
