"""The engine's KV arithmetic against pools and block sizes that real engines reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdeck.checkpoint import CheckpointFacts, published_facts
from specdeck.errors import SpecdeckError
from specdeck.paths import repo_root
from specdeck.planner.kv import (
    LayerKind,
    group_layers,
    hybrid_block_tokens,
    pack_layers,
    pool_tokens,
    qsa_ring_capacity,
    smallest_qsa_block,
)
from specdeck.planner.shape import CacheOptions, CacheShape, cache_shape

GIB = 2**30
TARGET = CheckpointFacts(
    "27b",
    {"text_config": {
        "model_type": "qwen3_5_text", "num_hidden_layers": 64, "full_attention_interval": 4, "hidden_size": 5120,
        "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "mtp_num_hidden_layers": 1, "mamba_ssm_dtype": "float32",
    }},
)  # fmt: skip
DRAFTER = CheckpointFacts(
    "drafter",
    {"num_hidden_layers": 5, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 2048,
     "layer_types": ["sliding_attention"] * 5},
)  # fmt: skip


def shape(**options: object) -> tuple[CacheShape, CacheOptions]:
    chosen = CacheOptions(**options)  # type: ignore[arg-type]
    found = cache_shape(TARGET, DRAFTER, chosen)
    assert isinstance(found, CacheShape)
    return found, chosen


DFLASH2 = {"method": "dflash", "draft_tokens": 7}


@pytest.mark.parametrize(
    ("options", "available_gib", "length", "blocks", "tokens"),
    [
        ({**DFLASH2, "batched_tokens": 2048}, 93.47, 262_144, 5889, 1_132_623),
        ({**DFLASH2, "batched_tokens": 2048}, 93.47, 32_768, 5889, 745_060),
        ({"batched_tokens": 2048}, 97.52, 32_768, 2037, 1_390_592),
        ({}, 95.61, 262_144, None, 1_535_195),
        (DFLASH2, 86.30, 262_144, None, 1_034_498),
        ({**DFLASH2, "kv_dtype": "fp8"}, 88.83, 262_144, None, 1_993_776),
        (DFLASH2, 66.25, 262_144, None, 794_041),
    ],
)
def test_pools_that_one_h200_reported_are_met_to_the_token(
    options: dict[str, object], available_gib: float, length: int, blocks: int | None, tokens: int
) -> None:
    found, chosen = shape(**options)
    assert found.grouping is not None
    # The log rounds to 0.01 GiB: the block count must be one that this rounding admits, and give the tokens exactly.
    lowest, highest = ((available_gib + e) * GIB // found.grouping.block_bytes for e in (-0.0051, 0.0051))
    per_request = found.per_request(chosen, length)
    fitting = [b for b in range(int(lowest), int(highest) + 1) if pool_tokens(b, per_request, length) == tokens]
    assert fitting
    assert blocks is None or blocks in fitting


def test_a_drafter_of_five_layers_sets_the_group_size_of_the_whole_model() -> None:
    found, _ = shape(**DFLASH2)
    assert found.grouping is not None
    assert found.grouping.group_size == 5
    assert {kind.kind: groups for kind, groups in found.grouping.groups} == {"state": 10, "full": 4, "sliding": 1}
    assert found.grouping.padding_layers == 2 + 4
    alone, _ = shape()
    assert alone.grouping is not None
    assert {kind.kind: groups for kind, groups in alone.grouping.groups} == {"state": 3, "full": 1}


def test_layers_of_nearly_equal_number_are_padded_to_the_larger_group() -> None:
    grouping = group_layers([LayerKind("full", 13, 64, 16), LayerKind("sliding", 12, 64, 16, 128)])
    assert (grouping.group_size, grouping.padding_layers) == (13, 1)


def test_a_page_that_divides_the_largest_gets_more_tokens_and_one_that_does_not_is_padded() -> None:
    grouping = group_layers([LayerKind("full", 2, 96, 16), LayerKind("sliding", 2, 48, 16, 64)])
    assert [kind.block_tokens for kind, _ in grouping.groups] == [16, 32]
    grouping = group_layers([LayerKind("full", 2, 96, 16), LayerKind("sliding", 2, 40, 16, 64)])
    assert [kind.block_tokens for kind, _ in grouping.groups] == [16, 16]
    assert grouping.page_bytes == 96


@pytest.mark.parametrize(
    ("n", "capacity", "fits_1616", "flag"),
    [
        (1, 8, True, None), (4, 8, True, None), (5, 12, False, 1632), (6, 12, False, 1632), (7, 12, False, 1680),
        (8, 12, False, None), (9, 16, True, None), (12, 16, True, None),
    ],
)  # fmt: skip
def test_the_qsa_ring_and_its_block_size(n: int, capacity: int, *, fits_1616: bool, flag: int | None) -> None:
    assert qsa_ring_capacity(4, n) == capacity
    assert (1616 % capacity == 0) is fits_1616
    if flag is not None:
        # Flash-Next at TP2: 8 key and 24 value heads of 128 a GPU, one KV head of 256 in bf16.
        state = (3 + n) * 5120 * 2 + 24 * 128 * 128 * 4
        automatic = hybrid_block_tokens(state, 1024)
        assert 1616 <= automatic <= 1648
        assert smallest_qsa_block(automatic, 4, n) == flag


def test_the_automatic_block_grows_with_the_draft_length() -> None:
    sizes = [hybrid_block_tokens((3 + n) * 5120 * 2 + 24 * 128 * 128 * 4, 1024) for n in (4, 5, 6, 7)]
    assert sizes == [1616, 1616, 1632, 1648]


def test_fp8_keys_hold_as_many_more_tokens_of_flash_next_as_two_machines_reported() -> None:
    # vllm#54426: 1.79 and 1.72 times on two GB10, MTP n=2, one GPU.
    target = published_facts("Qwen/Qwen3.8-Flash-Next-FP8", repo_root())
    assert target is not None
    pools = []
    for dtype in ("bfloat16", "fp8"):
        options = CacheOptions(kv_dtype=dtype, method="mtp", draft_tokens=2)
        found = cache_shape(target, None, options)
        assert isinstance(found, CacheShape)
        assert found.grouping is not None
        blocks = 40 * GIB // found.grouping.block_bytes
        pools.append(pool_tokens(blocks, found.per_request(options, 262_144), 262_144))
    assert 1.72 <= pools[1] / pools[0] <= 1.79


def test_states_are_split_until_they_fit_the_block_that_attention_needs() -> None:
    kinds = [LayerKind("full", 11, 100, 16, side_bytes=3), LayerKind("state", 34, 100), LayerKind("ring", 11, 2)]
    grouping = pack_layers(kinds)
    # Least padding puts 12 layers into a group, so three of states; but a block of 11 × 103 bytes holds 11 states.
    assert {kind.kind: count for kind, count in grouping.groups} == {"full": 1, "state": 4, "ring": 1}
    assert grouping.block_bytes == 11 * 103


def test_a_target_without_any_full_attention_has_a_layout() -> None:
    found = cache_shape(replace(TARGET, config=TARGET.config["text_config"] | {"full_attention_interval": 65}), None,
                        CacheOptions())  # fmt: skip
    assert isinstance(found, CacheShape)
    assert {kind.kind: count for kind, count in found.grouping.groups} == {"state": 1}


def test_more_layers_than_any_model_has_are_refused_with_their_key() -> None:
    many = replace(DRAFTER, config={**DRAFTER.config, "num_hidden_layers": 2**35, "layer_types": None})
    flash_next = published_facts("Qwen/Qwen3.8-Flash-Next-FP8", repo_root())
    assert flash_next is not None
    for target in (TARGET, flash_next):
        with pytest.raises(SpecdeckError, match="num_hidden_layers is not a whole number from 1 to 4096"):
            cache_shape(target, many, CacheOptions(method="dflash", draft_tokens=7))


def test_a_missing_key_is_named_instead_of_guessed() -> None:
    bare = CheckpointFacts("x", {"num_hidden_layers": 4, "full_attention_interval": 4})
    assert cache_shape(bare, None, CacheOptions()) == (
        "target config: num_key_value_heads", "target config: head_dim",
    )  # fmt: skip
