"""What the shapes of all families are made from: serving options, and layers that families share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdeck.checkpoint.facts import MOST_LAYERS
from specdeck.planner.kv import Grouping, LayerKind, blocks_per_request, ceil_div, gdn_state_bytes

if TYPE_CHECKING:
    from specdeck.checkpoint import CheckpointFacts

ELEMENT_BYTES = {
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4,
}  # fmt: skip


@dataclass(frozen=True)
class CacheOptions:
    """Serving options that shape the KV cache.

    Attributes:
        wide_ring: the image carries QSA_RING_PATCH.
        concurrent_batches: batches in flight at once: pipeline stages, and one more with asynchronous scheduling.
    """

    tensor_parallel: int = 1
    kv_dtype: str = "bfloat16"
    state_dtype: str | None = None
    block_size: int | None = None
    prefix_caching: bool = True
    batched_tokens: int = 8192
    concurrent_batches: int = 2
    method: str | None = None
    draft_tokens: int = 0
    cpu: bool = False
    wide_ring: bool = False


@dataclass(frozen=True)
class CacheShape:
    """The cache of one GPU.

    Attributes:
        token_bytes: bytes of one token by kind of layer, all layers of the kind together.
        state_bytes: bytes of the recurrent states of one sequence (one state a layer), 0 without such layers.
        block_tokens: attention block size.
        automatic_block: what the engine would choose by itself.
        grouping: how they are laid out.
        missing: inputs that are not known and were taken from elsewhere.
    """

    token_bytes: dict[str, int]
    state_bytes: int
    block_tokens: int
    automatic_block: int
    grouping: Grouping
    missing: tuple[str, ...]

    def per_request(self, options: CacheOptions, context: int) -> int:
        """Return the blocks of one request of `context` tokens."""
        return blocks_per_request(
            self.grouping,
            context=context,
            draft_tokens=options.draft_tokens,
            prefix_caching=options.prefix_caching,
            in_flight_tokens=options.concurrent_batches * options.batched_tokens,
        )


def state_bytes(target: CheckpointFacts, options: CacheOptions) -> int | tuple[str, ...]:
    """Return bytes of one recurrent state of one layer, or the names of the config keys that are missing."""
    if str(target.text.get("model_type")).startswith("glm5_next"):
        names, numbers, default = _kda(target)
    else:
        names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
                 "linear_conv_kernel_dim")  # fmt: skip
        numbers, default = tuple(target.number(name, least=1) for name in names), "bfloat16"
    key_heads, value_heads, key_dim, value_dim, kernel = numbers
    if key_heads is None or value_heads is None or key_dim is None or value_dim is None or kernel is None:
        absent = (name for name, value in zip(names, numbers, strict=True) if value is None)
        return tuple(f"target config: {name}" for name in dict.fromkeys(absent))
    # 0.32.0 keeps the recurrent state in the config's mamba_ssm_dtype, else in the family's default.
    dtype = options.state_dtype if options.state_dtype not in (None, "auto") else target.text.get("mamba_ssm_dtype")
    size = ELEMENT_BYTES.get(str(dtype or default))
    if size is None:
        return (f"target config: mamba_ssm_dtype {dtype!r}",)
    ranks = options.tensor_parallel
    return gdn_state_bytes(
        key_heads=max(1, key_heads // ranks), value_heads=max(1, value_heads // ranks), key_dim=key_dim,
        value_dim=value_dim, kernel=kernel, draft_tokens=options.draft_tokens, state_bytes=size,
    )  # fmt: skip


def _kda(target: CheckpointFacts) -> tuple[tuple[str, ...], tuple[int | None, ...], str]:
    """Return names, values and the default type of GLM's KDA state; its config has them flat or in an object."""
    own = target.object("linear_attn_config")
    names = ("num_heads", "head_dim", "short_conv_kernel_size") if own is not None else (
        "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"
    )  # fmt: skip
    heads, dim, kernel = (
        target.number(name, least=1) if own is None else target.within("linear_attn_config", name) for name in names
    )
    shown = tuple(name if own is None else f"linear_attn_config.{name}" for name in names)
    return (shown[0], shown[0], shown[1], shown[1], shown[2]), (heads, heads, dim, dim, kernel), "float32"


def mtp_layers(target: CheckpointFacts) -> int:
    """Return how many layers its MTP head has."""
    return (
        target.number("mtp_num_hidden_layers", most=MOST_LAYERS)
        or target.number("num_nextn_predict_layers", most=MOST_LAYERS)
        or 1
    )


def indexer_key_bytes(head_dim: int) -> int:
    """Return bytes of one FP8 key of GLM's indexer: a scale of 4 bytes for every 128 numbers."""
    return head_dim + ceil_div(head_dim, 128) * 4


def drafter_layers(
    drafter: CheckpointFacts, options: CacheOptions, block: int, element: int
) -> LayerKind | tuple[str, ...]:
    """Return the cached layers of a drafter, or the names of the config keys that are missing."""
    layers = drafter.number("num_hidden_layers", least=1, most=MOST_LAYERS)
    kv_heads, head_dim, window = (
        drafter.number(key, least=1) for key in ("num_key_value_heads", "head_dim", "sliding_window")
    )
    if layers is None or kv_heads is None or head_dim is None:
        return ("drafter config: num_hidden_layers, num_key_value_heads, head_dim",)
    page = block * 2 * max(1, kv_heads // options.tensor_parallel) * head_dim * element
    sliding = bool(window) and all(
        kind == "sliding_attention" for kind in drafter.layer_types or ("sliding_attention",)
    )
    return LayerKind("sliding" if sliding else "full", layers, page, block, (window or 0) if sliding else 0)
