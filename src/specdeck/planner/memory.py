"""What a GPU's memory goes to before the KV cache: weights, drafter, and a reserve with its basis. Ranges, in GiB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts
    from specdeck.recipe.models import Serve

GIB = 2**30
# Measured with vLLM 0.32.0 on one H200, a 27B-shaped FP8 target with hidden size 5120: memory beside weights and cache
# was 0.75 GiB at 2,048 batched tokens and 2.66 at 8,192, eager, without a drafter.
_FIXED_GIB = 0.11
_GIB_PER_TOKEN = 3.11e-4
_HIDDEN = 5120
# The same machine: 3.12 GiB more with DFlash2 n=7 at 1,024 sequences, that is 1.65 bytes a logit of the draft batch.
_BYTES_PER_DRAFT_LOGIT = 1.65
# CUDA graphs and what lies outside torch, a GPU of a pair: 2×RTX 5090 at 4 sequences, published pools minus the above.
_GRAPHS_GIB = (0.3, 0.7, 1.8)
_DRAFTER_GRAPHS_GIB = (0.1, 0.4, 1.2)
# 1.19 GB (W4A16) to 3.85 GB (bf16) for Qwen3.8-27B, 2.34 GB (bf16) for GLM-5.3-Flash.
_USUAL_DRAFTER_GIB = (1.1, 2.2, 3.6)


@dataclass(frozen=True)
class Amount:
    """Memory in GiB: what is expected, between what bounds, and on what that rests. Equal bounds: exact."""

    name: str
    low: float
    expected: float
    high: float
    basis: str


def exact(name: str, size: float, basis: str) -> Amount:
    """Return an amount without a range, from bytes."""
    return Amount(name, size / GIB, size / GIB, size / GIB, basis)


def weights(target: CheckpointFacts, ranks: int, *, mtp: bool, vision: bool, ngram: bool) -> Amount | None:
    """Return the target's weights of one GPU; None: their size is not known.

    MTP layers, the vision tower and an n-gram table count where they are loaded to the GPU; where they are not, and
    their size is not known, they widen the range. Every rank also holds some tensors whole, and shards are padded: up
    to 3 % more. Where only the number of parameters is known, the range spans half a byte to two bytes for each.
    """
    whole = target.weight_bytes
    if whole is None:
        return _by_parameters(target, ranks)
    basis = "safetensors headers" if target.files is not None else f"published: {target.sources.get('weight_bytes')}"
    unknown = 0.0
    for part, loaded in (("mtp", mtp), ("vision", vision), ("ngram", ngram)):
        if loaded:
            continue
        if part in target.part_bytes:
            whole -= target.part_bytes[part]
        elif target.files is None:
            unknown += 0.03
            basis += f"; the size of its {part} part, which this arm does not load, is not known"
    share = whole / ranks / GIB
    padding = 0.0 if ranks == 1 else 0.03
    return Amount("target weights", share * (1 - unknown), share * (1 - unknown / 2), share * (1 + padding), basis)


def _by_parameters(target: CheckpointFacts, ranks: int) -> Amount | None:
    if target.parameters is None:
        return None
    low, middle, high = (target.parameters * size / ranks / GIB for size in (0.5, 1.0, 2.0))
    return Amount(
        "target weights", low, middle, high, f"not published: {target.parameters:,} parameters of 4 to 16 bits"
    )


def drafter_weights(drafter: CheckpointFacts | None, ranks: int) -> list[Amount]:
    """Return the drafter's weights and codebooks of one GPU. Codebooks lie on every GPU whole.

    Where nothing is known the range spans the published DFlash2 drafters, from 4 to 16 bits.
    """
    if drafter is None or drafter.weight_bytes is None:
        low, middle, high = (size / ranks for size in _USUAL_DRAFTER_GIB)
        return [
            Amount("drafter weights", low, middle, high, "not published: as published DFlash2 drafters, 4 to 16 bits")
        ]
    basis = "safetensors headers" if drafter.files is not None else f"published: {drafter.sources.get('weight_bytes')}"
    codebooks = drafter.part_bytes.get("codebooks")
    found = [exact("drafter weights", (drafter.weight_bytes - (codebooks or 0)) / ranks, basis)]
    if codebooks:
        found.append(exact("drafter codebooks", codebooks, "selector rank × vocabulary, whole on every GPU"))
    positions, head = drafter.number("max_position_embeddings"), drafter.number("head_dim")
    if positions and head:
        found.append(exact("drafter position table", positions * head * 2, "max_position_embeddings × head_dim, bf16"))
    return found


def reserve(target: CheckpointFacts, serve: Serve, *, batched_tokens: int, sequences: int, draft_tokens: int,
            ranks: int) -> list[Amount]:  # fmt: skip
    """Return activations and CUDA graphs of one GPU: scaled from measured runs, so with a range."""
    hidden = target.number("hidden_size") or _HIDDEN
    activation = _FIXED_GIB + _GIB_PER_TOKEN * batched_tokens * hidden / _HIDDEN / ranks
    found = [
        Amount(
            "activations", activation * 0.6, activation, activation * 1.7,
            f"{batched_tokens} batched tokens; scaled by hidden size from one H200 with vLLM 0.32.0",
        )
    ]  # fmt: skip
    if draft_tokens:
        logits = (
            sequences * (draft_tokens + 1) * (target.number("vocab_size") or 248_320) * _BYTES_PER_DRAFT_LOGIT / GIB
        )
        found.append(
            Amount(
                "draft logits", logits * 0.7, logits, logits * 1.5, f"{sequences} sequences × {draft_tokens + 1} rows"
            )
        )
    if not serve.enforce_eager:
        low, middle, high = _GRAPHS_GIB
        if draft_tokens:
            low, middle, high = (a + b for a, b in zip(_GRAPHS_GIB, _DRAFTER_GRAPHS_GIB, strict=True))
        found.append(
            Amount("CUDA graphs, outside torch", low, middle, high, "2×RTX 5090, 4 sequences; H200: 2.5 GiB at 1,024")
        )
    return found
