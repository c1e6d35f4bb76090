"""The files of the bench: prompts and others to warm up on, texts for perplexity, and questions with right answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .grammar import CATEGORIES, Problem, problems

if TYPE_CHECKING:
    from pathlib import Path

SEED = 1
COUNT = 30
WARMUP = 6
TEXTS_SEED, TEXTS = 3, 25
QUESTIONS_SEED, QUESTIONS = 5, 320


def _line(problem: Problem, prefix: str = "") -> str:
    row = {
        "id": prefix + problem.id,
        "category": problem.category,
        "messages": problem.messages,
        "answer": problem.answer,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def write_prompts(folder: Path) -> None:
    """Write tiny-next.jsonl and tiny-next-warmup.jsonl: one stream of held-out problems, so they never share one."""
    chosen = problems("held-out", SEED, COUNT + WARMUP)
    measured, warmup = chosen[:COUNT], chosen[COUNT:]
    (folder / "tiny-next.jsonl").write_text("".join(map(_line, measured)), encoding="utf-8")
    (folder / "tiny-next-warmup.jsonl").write_text("".join(_line(p, "warmup-") for p in warmup), encoding="utf-8")


def write_texts(folder: Path) -> None:
    """Write tiny-next.jsonl for the perplexity check: held-out replies, each after its question."""
    lines = []
    for category in CATEGORIES:
        for problem in problems("held-out", TEXTS_SEED, TEXTS, category):
            question = f"<|im_start|>user\n{problem.question}<|im_end|>\n<|im_start|>assistant\n"
            row = {"id": problem.id, "domain": category, "text": f"{problem.reply}<|im_end|>\n", "context": question}
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    (folder / "tiny-next.jsonl").write_text("".join(lines), encoding="utf-8")


def write_questions(folder: Path) -> None:
    """Write tiny-next.jsonl for checks of right answers: held-out math in the layout of GSM8K, a number after ####."""
    lines = []
    for problem in problems("held-out", QUESTIONS_SEED, QUESTIONS, "math"):
        answer = f"{problem.reply}\n#### {problem.answer.split(' ', 1)[0]}"
        row = {"id": problem.id, "question": problem.question, "answer": answer}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    (folder / "tiny-next.jsonl").write_text("".join(lines), encoding="utf-8")
