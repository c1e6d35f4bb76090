"""Perplexity of fixed texts from `prompt_logprobs`: a canary for weights, kernels and caches, without any sampling.

Texts are cut into chunks of at most CHUNK tokens by the server's own tokenizer, so that logits stay bounded (vLLM holds
about 0.6 MB a prompt token at a vocabulary of 150,000), and each chunk is scored alone: perplexity is
exp(-Σ log p / n) over all tokens of all chunks but the first of each, which has no prediction, and a document's
context, which is there to be read and not to be scored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from specdeck.quality.asking import AskError, gather
from specdeck.quality.check import BASELINE, NOT_APPLICABLE
from specdeck.quality.texts import load_documents
from specdeck.results.quality import CheckResult
from specdeck.results.schema import Strict
from specdeck.stats.bootstrap import cluster_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdeck.quality.asking import Reply
    from specdeck.quality.check import Job, Verdict
    from specdeck.recipe import Recipe
    from specdeck.stats.bootstrap import FloatArray

CHUNK = 512
DEFAULT_TEXTS = "general"
QUICK_CHUNKS, REPEATED = 12, 8
MARGIN = 0.005
"""Share by which perplexity may exceed the baseline's before the difference counts."""


class Chunk(Strict, frozen=True, kw_only=True):
    """What one chunk scored: `nll` is -Σ log p over `n` tokens, natural logarithm."""

    id: str
    domain: str
    n: int
    nll: float


class Seen(Strict, frozen=True, kw_only=True):
    """All chunks scored alone, and the first of them once more alone and once more at the same time."""

    texts: str
    chunks: tuple[Chunk, ...]
    again: tuple[Chunk, ...]
    together: tuple[Chunk, ...]


@dataclass(frozen=True)
class _Piece:
    """Tokens sent as one prompt; those before `first` are context and not scored."""

    id: str
    domain: str
    tokens: list[int]
    first: int

    @property
    def scored(self) -> range:
        """Positions that are scored: the first token of a prompt has no prediction."""
        return range(max(1, self.first), len(self.tokens))


class Perplexity:
    """Scores fixed texts and compares with the arm without a drafter and with the checkpoint's recorded value."""

    name = "perplexity"
    title = "perplexity of fixed texts"
    seen = Seen
    death: Verdict = "unmeasurable"

    async def observe(self, job: Job) -> Seen:
        """Score every chunk alone; then REPEATED of them again, alone and at once."""
        texts = job.recipe.texts if job.recipe else DEFAULT_TEXTS
        size = min(CHUNK, job.max_model_len - 1) if job.max_model_len else CHUNK
        pieces: list[_Piece] = []
        for document in load_documents(job.root, texts):
            context = await job.asker.tokenize(document.context) if document.context else []
            tokens = context + await job.asker.tokenize(document.text)
            for at in range(0, len(tokens), size):
                piece = _Piece(f"{document.id}:{at}", document.domain, tokens[at : at + size], len(context) - at)
                pieces += [piece] if piece.scored else []
        chosen = _spread(pieces, min(job.limit or len(pieces), QUICK_CHUNKS if job.quick else len(pieces)))
        repeated = chosen[:REPEATED]
        done = job.counter("perplexity", len(chosen) + 2 * len(repeated))

        async def score(pieces: Sequence[_Piece], width: int) -> tuple[Chunk, ...]:
            replies = await gather(
                width,
                [partial(job.asker.ask, {"prompt": piece.tokens}, max_tokens=1, prompt_logprobs=0) for piece in pieces],
                done,
            )
            return tuple(
                Chunk(id=piece.id, domain=piece.domain, n=len(piece.scored), nll=_nll(reply, piece))
                for piece, reply in zip(pieces, replies, strict=True)
            )

        return Seen(
            texts=texts,
            chunks=await score(chosen, 1),
            again=await score(repeated, 1),
            together=await score(repeated, job.width),
        )

    def judge(self, arm: str, seen: Seen, base: Seen | None, recipe: Recipe | None) -> CheckResult:
        """Fail above the baseline by more than MARGIN and significantly, or outside the recorded value's tolerance."""
        sums = _sums(seen.chunks)
        value = _perplexity(sums.sum(axis=0))
        interval = cluster_interval(sums, _perplexities)
        floor = _noise(seen)
        details: dict[str, Any] = {
            "texts": seen.texts,
            "tokens": int(sums[:, 1].sum()),
            "domains": {
                name: _perplexity(_sums([c for c in seen.chunks if c.domain == name]).sum(axis=0))
                for name in sorted({chunk.domain for chunk in seen.chunks})
            },
            "noise": floor,
            "deterministic": all(a.nll == b.nll for a, b in zip(seen.chunks, seen.again, strict=False)),
        }
        problems: list[str] = []
        reference: float | None = None
        if base is not None:
            reference, said = _against(seen, base, details, floor)
            problems += said
        recorded = recipe.expect.perplexity.get(seen.texts) if recipe else None
        if recorded is not None:
            # A quick check scores a part of the texts: what that part is by chance is what its interval covers.
            whole = details["tokens"] == recorded.tokens
            comparable = whole or interval is not None
            details["recorded"] = {"value": recorded.value, "source": recorded.source, "whole": whole}
            reference = recorded.value if reference is None and comparable else reference
            off = abs(value / recorded.value - 1) if whole else (interval.lo if interval else 0) / recorded.value - 1
            if off > recorded.tolerance:
                problems.append(
                    f"perplexity of {seen.texts} is {value:.4g}; recorded for this checkpoint is {recorded.value:.4g} "
                    f"± {100 * recorded.tolerance:g} %: damaged or other weights, another quantization, or kernels "
                    "that compute something else. Fix: verify the checkpoint's hashes, then run the arm none again"
                )
        if reference is None:
            details["note"] = "nothing to hold it against: no other arm none in this run and no recorded value"
            details |= {NOT_APPLICABLE: True} if arm == BASELINE else {}
        return CheckResult(
            check=self.name,
            arm=arm,
            verdict="fail" if problems else "pass" if reference is not None else "unmeasurable",
            n=len(seen.chunks),
            value=value,
            unit="perplexity",
            interval=(interval.lo, interval.hi) if interval else None,
            reference=reference,
            reason="; ".join(problems) or details.get("note"),
            details=details,
        )


def _against(seen: Seen, base: Seen, details: dict[str, Any], floor: float) -> tuple[float | None, list[str]]:
    """The baseline's perplexity over the chunks both scored, and what is wrong with ours beside it."""
    theirs = {chunk.id: chunk for chunk in base.chunks}
    pairs = [(chunk, theirs[chunk.id]) for chunk in seen.chunks if chunk.id in theirs]
    if not pairs or any(ours.n != other.n for ours, other in pairs):
        return None, ["the arm none cut the same texts into other tokens: another tokenizer. Fix: compare one target"]
    both = np.array([(ours.nll, other.nll, ours.n) for ours, other in pairs], dtype=np.float64)
    ratio = float(_ratios(both.sum(axis=0, keepdims=True))[0])
    interval = cluster_interval(both, _ratios)
    details["ratio_to_none"] = ratio
    details["ratio_interval"] = [interval.lo, interval.hi] if interval else None
    margin = 1 + max(MARGIN, 3 * max(floor, _noise(base)))
    details["margin"] = margin
    problems = []
    if ratio > margin and interval is not None and interval.lo > 1:
        problems.append(
            f"perplexity is {ratio:.4g} times the arm none's [{interval.lo:.4g}, {interval.hi:.4g}], "
            f"more than {margin:.4g}: this arm does not compute what the target computes. "
            "Fix: compare KV cache dtype, attention backend and patches of both arms"
        )
    return _perplexity(np.array([both[:, 1].sum(), both[:, 2].sum()])), problems


def _nll(reply: Reply, piece: _Piece) -> float:
    tokens = piece.tokens
    found: Any = reply.raw["choices"][0].get("prompt_logprobs") or reply.raw.get("prompt_logprobs") or ()
    try:
        value = -math.fsum(found[i][str(tokens[i])]["logprob"] for i in piece.scored)
    except (TypeError, KeyError, IndexError) as error:
        raise AskError("odd", f"prompt_logprobs do not cover the prompt: {type(error).__name__} {error}") from error
    if len(found) != len(tokens) or not math.isfinite(value):
        raise AskError("odd", f"prompt_logprobs of {len(tokens)} tokens: {len(found)} entries, sum {value}")
    return value


def _noise(seen: Seen) -> float:
    """Relative change of perplexity between one scoring and the next, alone or together: the largest of all chunks."""
    first = {chunk.id: chunk for chunk in seen.chunks}
    return max((abs(math.expm1((c.nll - first[c.id].nll) / c.n)) for c in (*seen.again, *seen.together)), default=0.0)


def _sums(chunks: Sequence[Chunk]) -> FloatArray:
    return np.array([(chunk.nll, chunk.n) for chunk in chunks], dtype=np.float64)


def _perplexity(sums: FloatArray) -> float:
    return float(np.exp(sums[0] / sums[1]))


def _perplexities(sums: FloatArray) -> FloatArray:
    found: FloatArray = np.exp(sums[:, 0] / sums[:, 1])
    return found


def _ratios(sums: FloatArray) -> FloatArray:
    found: FloatArray = np.exp((sums[:, 0] - sums[:, 1]) / sums[:, 2])
    return found


def _spread(pieces: Sequence[Any], n: int) -> list[Any]:
    """`n` pieces at equal distances, so that a short check covers every domain."""
    return [pieces[i * len(pieces) // n] for i in range(n)]
