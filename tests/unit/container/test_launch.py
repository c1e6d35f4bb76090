"""An image that is not the recipe's is refused, and a secret goes into a container by a file in memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.checkout import RECIPE

from specdeck.container.launch import Asked, check_image, prepare
from specdeck.container.server import arguments, status_of
from specdeck.container.shell import run_command
from specdeck.errors import SpecdeckError
from specdeck.image.manifest import LABEL, Base, Manifest, dump
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from support.checkout import Checkout

IN_CONTAINER = RECIPE.replace("runtime: local, environment: cpu", "runtime: docker, image: some/image, patches: [p]")


def image(**changes: Any) -> Any:
    manifest = Manifest(vllm="0.32.0", device="cpu", base=Base(ref="debian"), harness="0.1.0")
    return SimpleNamespace(
        id="sha256:1", tags=["some/image:1"], labels={LABEL: dump(manifest.model_copy(update=changes)).decode()}
    )


@pytest.fixture
def root(checkout: Checkout) -> Path:
    """A checkout with the real series of patches."""
    shutil.copytree(Path(__file__).parents[3] / "engines" / "patches", checkout.root / "engines" / "patches")
    return checkout.root


def test_an_image_whose_manifest_differs_from_the_recipe_is_refused_and_may_be_forced(root: Path) -> None:
    recipe = load_recipe("r")
    check_image(image(), recipe, root, force=False, say=print)
    wrong = image(vllm="0.31.0", device="cuda")
    with pytest.raises(SpecdeckError, match=r"the image has vLLM 0\.31\.0") as caught:
        check_image(wrong, recipe, root, force=False, say=print)
    assert "the image is built for cuda" in caught.value.what
    assert "specdeck image build r" in str(caught.value.fix)
    said: list[str] = []
    check_image(wrong, recipe, root, force=True, say=said.append)
    assert "0.31.0" in said[0]


def test_a_recipe_with_patches_refuses_an_image_that_cannot_show_them(root: Path, checkout: Checkout) -> None:
    checkout.recipe("r", IN_CONTAINER)
    bare: Any = SimpleNamespace(id="sha256:1", tags=[], labels=None)
    with pytest.raises(SpecdeckError, match="nothing shows that it carries p"):
        check_image(bare, load_recipe("r"), root, force=False, say=print)
    checkout.recipe("r", IN_CONTAINER.replace(", patches: [p]", ""))
    check_image(bare, load_recipe("r"), root, force=False, say=print)


def test_a_secret_of_the_environment_is_in_a_file_and_nowhere_else(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("VLLM_API_KEY", "not-to-be-seen")
    asked = Asked(image="some/image")
    spec = prepare(load_recipe("r"), "none", asked, image=image(), host="127.0.0.1", port=8100, root=root, folders={})
    path = spec.secrets["vllm_api_key"]
    assert path.startswith(str(tmp_path))
    assert asked.api_key() == "not-to-be-seen"
    assert "not-to-be-seen" not in f"{spec} {arguments(spec)} {run_command(spec)}"
    assert f"source={path},target=/run/secrets/vllm_api_key,readonly" in run_command(spec)


def test_a_secret_in_memory_is_refused_for_a_container_that_restarts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "not-to-be-seen")
    asked = Asked(image="some/image", restart="unless-stopped")
    with pytest.raises(SpecdeckError, match="could lose it") as caught:
        prepare(load_recipe("r"), "none", asked, image=image(), host="127.0.0.1", port=8100, root=root, folders={})
    assert "--api-key-file" in str(caught.value.fix)


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (137, -9), (143, -15), (128, 128), (255, 255)])
def test_a_containers_exit_code_is_read_as_a_processs(code: int, status: int) -> None:
    assert status_of(code) == status
