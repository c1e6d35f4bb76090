"""What no operating system, and no set of machines, can hold is refused when the recipe is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.checkout import RECIPE

from specdeck.errors import SpecdeckError
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from support.checkout import Checkout

CUDA = "hardware: {device: cuda, class: gb10, "


@pytest.mark.parametrize(
    ("before", "after", "what", "key"),
    [
        ("path: models/target", "path: " + "a" * 300, "longer than a path", "target.path"),
        ("path: models/target", "path: " + "a/" * 1500, "longer than a path", "target.path"),
        ("max_model_len: 2048", "chat_template: " + "a" * 300, "longer than a path", "serve.chat_template"),
        ("max_model_len: 2048", 'dtype: "a\\0b"', "NUL", "serve.dtype"),
        ("max_model_len: 2048", 'extra: {some_option: ["a\\0b"]}', "NUL", "serve.extra.some_option"),
        ("hardware: {device: cpu, ", CUDA.replace("class: gb10", "gpus: 2, nodes: 2"), "by network", "hardware.nodes"),
        (
            "hardware: {device: cpu, ",
            CUDA.replace("class: gb10", "gpus: 3, nodes: 2, link: network"),
            "spread evenly over 2 nodes",
            "hardware.gpus",
        ),
    ],
)
def test_it_is_told_with_its_key(before: str, after: str, what: str, key: str, checkout: Checkout) -> None:
    text = RECIPE.replace(", environment: cpu", "") if "cuda" in after else RECIPE
    checkout.recipe("r", text.replace(before, after))
    with pytest.raises(SpecdeckError) as caught:
        load_recipe("r")
    told = str(caught.value)
    assert what in told
    assert key in told
    assert "recipes/r.yml:" in told
