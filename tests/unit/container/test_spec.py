"""A container is what the recipe says: the local runtime's command, read-only weights, keyed caches, no secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.checkout import RECIPE

from specdeck.container.spec import ContainerSpec, Options, cache_key, render
from specdeck.engine.command import build_command
from specdeck.errors import SpecdeckError
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from support.checkout import Checkout

OPTIONS = Options(image="example/vllm:0.32.0")
ON_GPUS = RECIPE.replace(
    'engine: {vllm: "==0.32.0", runtime: local, environment: cpu}\nhardware: {device: cpu, class: x86-64}',
    'engine: {vllm: "==0.32.0", runtime: docker}\nhardware: {device: cuda, gpus: 2, class: rtx3090}',
)
FROM_THE_HUB = ON_GPUS.replace("{path: models/target}", "{repo: some/model}")


def rendered(checkout: Checkout, arm: str = "dflash2", **options: Any) -> ContainerSpec:
    return render(load_recipe("r"), arm, replace(OPTIONS, **options), root=checkout.root)


def test_the_server_has_the_arguments_of_the_local_runtime(checkout: Checkout) -> None:
    local = build_command(load_recipe("r"), "dflash2", python=Path("/p"), host="0.0.0.0", port=8000, root=checkout.root)
    assert rendered(checkout).argv == ("python3", *local.argv[1:])


def test_weights_are_read_only_at_their_own_path_and_only_the_caches_can_be_written(checkout: Checkout) -> None:
    spec = rendered(checkout)
    models = [str(checkout.root / "models" / role) for role in ("drafter", "target")]
    assert [(m.source, m.target) for m in spec.mounts if m.read_only] == [(path, path) for path in models]
    assert [m.target for m in spec.mounts if not m.read_only] == ["/cache"]


def test_an_arm_without_the_drafter_does_not_mount_it(checkout: Checkout) -> None:
    assert not any(mount.source.endswith("drafter") for mount in rendered(checkout, "mtp").mounts)


def test_an_overlay_is_mounted_with_the_folders_its_links_point_to(checkout: Checkout) -> None:
    overlay = checkout.root / "overlay"
    overlay.mkdir()
    (overlay / "model.safetensors").symlink_to(checkout.root / "models" / "target" / "model.safetensors")
    spec = render(load_recipe("r"), "mtp", OPTIONS, root=checkout.root, folders={"target": overlay})
    assert [m.source for m in spec.mounts if m.read_only] == [str(checkout.root / "models" / "target"), str(overlay)]


def test_a_chat_template_of_the_checkout_is_there_inside(checkout: Checkout) -> None:
    (checkout.root / "chat.jinja").write_text("{{ messages }}")
    checkout.recipe("r", RECIPE.replace("max_model_len: 2048", "chat_template: chat.jinja"))
    assert str(checkout.root / "chat.jinja") in [m.target for m in rendered(checkout).mounts if m.read_only]


def test_a_repository_is_read_through_the_hub_cache_and_local_weights_are_not(
    checkout: Checkout, tmp_path: Path
) -> None:
    local = rendered(checkout, hub=tmp_path)
    assert "HF_HUB_CACHE" not in local.env
    assert str(tmp_path) not in [mount.source for mount in local.mounts]
    checkout.recipe("r", FROM_THE_HUB)
    spec = rendered(checkout, hub=tmp_path)
    assert spec.env["HF_HUB_CACHE"] == "/hub"
    assert str(tmp_path) in [mount.source for mount in spec.mounts if mount.target == "/hub"]
    assert spec.env["HF_HOME"].startswith("/cache/")  # not the host's folder, which may hold a token


def test_an_arm_that_reads_only_local_weights_gets_neither_the_hub_cache_nor_the_token(
    checkout: Checkout, tmp_path: Path
) -> None:
    checkout.recipe("r", ON_GPUS.replace("{path: models/drafter}", "{repo: some/drafter}"))
    token = tmp_path / "token"
    without = rendered(checkout, "mtp", hub=tmp_path, hf_token_file=token)
    assert (without.secrets, "HF_HUB_CACHE" in without.env) == ({}, False)
    assert str(tmp_path) not in [mount.source for mount in without.mounts]
    drafting = rendered(checkout, "dflash2", hub=tmp_path, hf_token_file=token)
    assert (list(drafting.secrets), drafting.env["HF_HUB_CACHE"]) == (["hf_token"], "/hub")


def test_secrets_are_in_no_argument_variable_or_label(checkout: Checkout, tmp_path: Path) -> None:
    checkout.recipe("r", FROM_THE_HUB)
    key, token = tmp_path / "key", tmp_path / "token"
    key.write_text("a-key-nobody-sees")
    token.write_text("a-token-nobody-sees")
    spec = rendered(checkout, api_key_file=key, hf_token_file=token)
    assert "nobody-sees" not in repr(spec)
    assert spec.secrets == {"vllm_api_key": str(key), "hf_token": str(token)}
    assert spec.env["HF_TOKEN_PATH"] == "/run/secrets/hf_token"
    assert spec.argv[:2] == ("sh", "-c")
    assert spec.argv[4:] == rendered(checkout).argv


def test_gpus_are_the_first_ones_or_those_named(checkout: Checkout) -> None:
    checkout.recipe("r", ON_GPUS)
    assert rendered(checkout).gpus == ("0", "1")
    assert rendered(checkout, gpus=("GPU-a", "3")).gpus == ("GPU-a", "3")


@pytest.mark.parametrize("named", [("0",), ("0", "0"), ("0", "1", "2")])
def test_another_number_of_gpus_than_the_recipes_is_refused(checkout: Checkout, named: tuple[str, ...]) -> None:
    checkout.recipe("r", ON_GPUS)
    with pytest.raises(SpecdeckError, match="for 2 GPUs") as caught:
        rendered(checkout, gpus=named)
    assert caught.value.fix


def test_a_recipe_over_several_machines_is_refused(checkout: Checkout) -> None:
    checkout.recipe("r", ON_GPUS.replace("gpus: 2,", "gpus: 2, nodes: 2, link: network,"))
    with pytest.raises(SpecdeckError, match="spans 2 machines"):
        rendered(checkout)


def test_by_default_only_this_machine_reaches_it_and_it_does_not_restart(checkout: Checkout) -> None:
    spec = rendered(checkout)
    assert (spec.host, spec.restart, spec.shm_size) == ("127.0.0.1", "no", None)


def test_a_changed_flag_image_or_variable_has_a_cache_of_its_own() -> None:
    argv = ("python3", "--dtype", "bfloat16", "--port", "1")
    key = cache_key("i", argv, {})
    assert key != cache_key("j", argv, {})
    assert key != cache_key("i", ("python3", "--dtype", "float16", "--port", "1"), {})
    assert key != cache_key("i", argv, {"VLLM_USE_X": "1"})


def test_what_compiles_nothing_shares_the_cache() -> None:
    words = ("--dtype", "bfloat16")
    one = ("python3", "--port", "1", "--served-model-name", "a", *words)
    assert cache_key("i", one, {}) == cache_key("i", ("python3", "--served-model-name=b", *words), {})
