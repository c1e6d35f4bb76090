"""`docker/Dockerfile.source` on a real Docker engine, with a local git repository that plays upstream."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
import yaml
from support.dockerd import BASE
from support.upstream import CONFIG, Upstream

from specdeck.engine.ports import free_port, release
from specdeck.errors import SpecdeckError
from specdeck.image.build import Built, Source, build, request
from specdeck.recipe import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.dockerd import Engine

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]  # the first test may build the CPU image
VERSION = "0.33.0.dev7"
DFLASH = CONFIG.replace("['mtp']", "['mtp', 'dflash']")
PATCHED = DFLASH.replace("LAST = True", "LAST = False")
DIFF = "--- a/vllm/config.py\n+++ b/vllm/config.py\n@@ -6 +6 @@\n-LAST = True\n+LAST = False\n"


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[tuple[Upstream, str]]:
    """The repository, and the URL at which it is served on loopback."""
    played, port = Upstream(tmp_path / "upstream"), free_port()
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            "--directory",
            str(played.folder / ".git"),
            str(port),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/HEAD", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield played, f"http://127.0.0.1:{port}/"
    finally:
        server.kill()
        server.wait()
        release(port)


@pytest.fixture
def checkout(copy: Path) -> Path:
    """A checkout with a recipe for the source, and one patch that stands upon pull request 1."""
    patches = copy / "engines" / "patches"
    (patches / "trial.diff").write_text(DIFF)
    (patches / "trial.py").write_text(
        "import pathlib, sys\n"
        "sys.exit('LAST = False' not in (pathlib.Path(sys.argv[1]) / 'vllm/config.py').read_text())\n"
    )
    sha = [hashlib.sha256(text.encode()).hexdigest() for text in (DIFF, DFLASH, PATCHED)]
    entry = {
        "id": "trial",
        "upstream": "https://github.com/example/vllm/pull/2",
        "purpose": "a trial",
        "since": "0.32.0",
        "before": "0.34.0",
        "drop": {"when": "never", "file": "vllm/config.py", "contains": "LAST = None"},
        "license": "Apache-2.0",
        "proof": "trial.py",
        "diffs": [
            {
                "file": "trial.diff",
                "sha256": sha[0],
                "source": f"https://github.com/example/vllm/commit/{'1' * 40}",
                "files": {"vllm/config.py": {"before": sha[1], "after": sha[2]}},
            }
        ],
    }
    (patches / "series.yml").write_text(yaml.safe_dump({"patches": [entry]}))
    recipe = (copy / "recipes/tiny-next-cpu.yml").read_text()
    (copy / "recipes/source.yml").write_text(
        recipe.replace("name: tiny-next-cpu", "name: source")
        .replace('"==0.32.0"', f'"=={VERSION}"')
        .replace("  environment: cpu\n", "  patches: [trial]\n")
        .replace("runtime: local", "runtime: docker")
    )
    return copy


def built(checkout: Path, engine: Engine, url: str, commit: str, *pulls: str) -> Built:
    asked = request(load_recipe("source"), base=BASE, vllm=VERSION, source=Source(url, commit, pulls))
    return build(asked, checkout, engine.docker, print)


def test_a_pinned_source_is_merged_patched_built_and_installed(
    engine: Engine, checkout: Path, upstream: tuple[Upstream, str]
) -> None:
    played, url = upstream
    head = played.pull(1, "vllm/config.py", DFLASH)
    image = built(checkout, engine, url, played.commit, f"1@{head}")
    try:
        code = "import json, vllm.config as c; s = json.load(open('/opt/specdeck/source.json')); "
        code += "print(c.METHODS, c.LAST, s['merges'][0]['pull'], s['merges'][0]['head'], s['commit'])"
        run = ("run", "--rm", "--network", "none", image.tag, "python3", "-c", code)
        assert engine.docker.require(*run).split() == ["['mtp',", "'dflash']", "False", "1", head, played.commit]
        assert image.manifest.vllm == VERSION
        assert [patch.id for patch in image.manifest.patches] == ["trial"]
        assert image.manifest.build_args == {"REPOSITORY": url, "COMMIT": played.commit, "PULLS": f"1@{head}"}
    finally:
        engine.docker.require("image", "rm", image.tag)


def test_a_head_that_moved_fails_the_build(engine: Engine, checkout: Path, upstream: tuple[Upstream, str]) -> None:
    played, url = upstream
    pinned = played.pull(1, "vllm/config.py", DFLASH)
    now = played.pull(1, "vllm/config.py", DFLASH + "MORE = 1\n")
    with pytest.raises(SpecdeckError, match=f"pull request 1 moved: it is {now}"):
        built(checkout, engine, url, played.commit, f"1@{pinned}")


def test_a_conflict_fails_the_build(engine: Engine, checkout: Path, upstream: tuple[Upstream, str]) -> None:
    played, url = upstream
    first = played.pull(1, "vllm/config.py", DFLASH)
    other = played.pull(3, "vllm/config.py", CONFIG.replace("['mtp']", "['ngram']"))
    with pytest.raises(SpecdeckError, match=r"pull request 3 conflicts in vllm/config\.py \(merged: 1\)"):
        built(checkout, engine, url, played.commit, f"1@{first}", f"3@{other}")


def test_a_patch_that_does_not_fit_the_merged_source_fails_the_build(
    engine: Engine, checkout: Path, upstream: tuple[Upstream, str]
) -> None:
    played, url = upstream
    with pytest.raises(SpecdeckError, match="the patch trial cannot be applied"):
        built(checkout, engine, url, played.commit)
