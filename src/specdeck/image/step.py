"""The step of docker/Dockerfile that patches vLLM inside the image and writes what the image was made of.

Runs with the image's own Python, which has no specdeck: only what vLLM itself needs may be imported here.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import importlib.util
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from specdeck import __version__
from specdeck.errors import SpecdeckError
from specdeck.image.apply import apply_patches
from specdeck.image.manifest import PATH, Base, Manifest, dump, load
from specdeck.image.series import load_series, public_version
from specdeck.image.tree import Folder, version_of

PACKAGES = "packages.txt"
"""Beside the manifest: all packages of the image, as lines `python NAME VERSION` and `debian NAME VERSION`."""


def main() -> int:
    """Patch, prove, and write the manifest last; the exit status is 0 only when all of it was done."""
    try:
        _run(_arguments())
    except SpecdeckError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a program of its own
        return error.exit_code
    return 0


def installed_vllm() -> Folder:
    """Return the folder that holds this Python's vLLM, without importing it.

    Raises:
        SpecdeckError: this Python has none.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:
        raise SpecdeckError(
            "the image's python3 has no vLLM",
            where=sys.executable,
            fix="take a base image that has it, or name the release to install: specdeck image build --vllm 0.33.0",
        )
    return Folder(Path(found.origin).parents[1])


def packages() -> list[str]:
    """List every Python and Debian package of this image."""
    found = {f"python {one.name} {one.version}" for one in distributions() if one.name}
    try:
        listed = subprocess.run(
            ["dpkg-query", "--show", "--showformat=debian ${Package} ${Version}\\n"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found |= set(listed.splitlines())
    except (OSError, subprocess.CalledProcessError):
        found.add("debian: this base has no dpkg-query")
    return sorted(found)


def verify(built: Path, out: Path) -> None:
    """Take a source build's manifest over, once the installed vLLM is seen to hold what was patched.

    Raises:
        SpecdeckError: a patched file is not in the installed package, or is another one.
    """
    manifest, tree = load(built / Path(PATH).name), installed_vllm()
    for patch in manifest.patches:
        for name, expected in patch.files.items():
            raw = tree.read(name)
            if raw is None or hashlib.sha256(raw).hexdigest() != expected:
                raise SpecdeckError(
                    f"the wheel does not hold what the patch {patch.id} made of {name}",
                    where=tree.shown,
                    fix="see whether the build of the source generates that file",
                )
    out.mkdir(parents=True, exist_ok=True)
    (out / PACKAGES).write_text("\n".join(packages()) + "\n", encoding="utf-8")
    (out / "source.json").write_bytes((built / "source.json").read_bytes())
    (out / Path(PATH).name).write_bytes(dump(manifest))


def _run(options: argparse.Namespace) -> None:
    if options.built:
        verify(options.built, options.out)
        return
    series = load_series(options.series)
    tree = Folder(options.tree) if options.tree else installed_vllm()
    version = public_version(options.vllm) if options.tree else version_of(tree)
    if version is None:
        raise SpecdeckError(
            "the image's vLLM does not say its version",
            where=tree.shown,
            fix="take a release or a wheel built from git",
        )
    if options.vllm and str(version) != options.vllm:
        raise SpecdeckError(
            f"the image has vLLM {version} and not {options.vllm}",
            where=tree.shown,
            fix="take the base of that release",
        )
    names = [name for name in options.patches.split(",") if name]
    applied = apply_patches(series, names, tree, version)
    for name in [name for patch in applied for name in patch.files if not options.tree]:
        compileall.compile_file(tree.root / name, quiet=1)
    manifest = Manifest(
        vllm=str(version),
        device=options.device,
        base=Base(ref=options.base, digest=options.base_digest or None),
        patches=applied,
        harness=__version__,
        build_args=dict(pair.split("=", 1) for pair in options.build_arg if not pair.endswith("=")),
    )
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    (out / PACKAGES).write_text("\n".join(packages()) + "\n", encoding="utf-8")
    (out / Path(PATH).name).write_bytes(dump(manifest))
    print(f"vLLM {version}, patches: {', '.join(patch.id for patch in applied) or 'none'}")  # noqa: T201


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="specdeck.image.step", description=__doc__)
    parser.add_argument("--built", type=Path, help="take over the manifest of a source build from this folder")
    parser.add_argument("--tree", type=Path, help="a source to patch, of the version that --vllm says")
    parser.add_argument("--series", type=Path)
    parser.add_argument("--patches", default="")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--vllm", default="")
    parser.add_argument("--base")
    parser.add_argument("--base-digest", default="")
    parser.add_argument("--out", type=Path, default=Path(PATH).parent)
    parser.add_argument("--build-arg", action="append", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
