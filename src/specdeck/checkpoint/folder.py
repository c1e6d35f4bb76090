"""Finds a checkpoint's folder and lists its weights: a local folder, or a snapshot in the Hugging Face cache."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.checkpoint.headers import Tensor, read_header
from specdeck.checkpoint.jsonfile import read_object
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdeck.recipe.models import Checkpoint

INDEX = "model.safetensors.index.json"
MOST_SHARDS = 4096
_VARIABLE = re.compile(r"\$(?:(\w+)|\{([^}]*)\})")
_REVISION = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Located:
    """A checkpoint on this machine.

    Attributes:
        folder: holds config.json.
        revision: commit of the snapshot; None for a plain folder.
    """

    folder: Path
    revision: str | None


def hub_cache(env: Mapping[str, str] | None = None) -> Path:
    """Return the Hugging Face cache, by HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or the home directory, in that order.

    `~` and `$NAME` in them are expanded, as huggingface_hub does.
    """
    env = os.environ if env is None else env
    if env.get("HF_HUB_CACHE"):
        return Path(_expanded(env["HF_HUB_CACHE"], env))
    home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    return Path(_expanded(home, env)) / "hub"


def locate(checkpoint: Checkpoint, root: Path, *, cache: Path | None = None) -> Located | None:
    """Find a checkpoint on this machine; None: it is a repository that has not been downloaded.

    Raises:
        SpecdeckError: `refs/main` of the cache is not a commit.
    """
    if checkpoint.path is not None:
        folder = (root / checkpoint.path).resolve()
        return Located(folder, None) if (folder / "config.json").is_file() else None
    assert checkpoint.repo is not None
    store = (cache or hub_cache()) / ("models--" + checkpoint.repo.replace("/", "--"))
    revision = checkpoint.revision or _main(store)
    if revision is None:
        return None
    folder = store / "snapshots" / revision
    return Located(folder, revision) if (folder / "config.json").is_file() else None


def shards(folder: Path) -> list[Path]:
    """Return the weight files of a checkpoint: those its index names, else every *.safetensors.

    Raises:
        SpecdeckError: the index is damaged, names a file outside the folder, or one that is not there.
    """
    index = folder / INDEX
    if not index.is_file():
        return sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    return [folder / name for name in sorted(set(_weight_map(index).values()))]


def read_tensors(folder: Path) -> tuple[Tensor, ...]:
    """Return all tensors of a checkpoint from the headers of its files, checked against the index where there is one.

    Raises:
        SpecdeckError: a file is damaged, a tensor is in two files, or index and headers disagree.
    """
    found: dict[str, tuple[Tensor, str]] = {}
    for path in shards(folder):
        for tensor in read_header(path):
            if tensor.name in found:
                raise SpecdeckError(
                    f"tensor {tensor.name!r} is in {found[tensor.name][1]} as well",
                    where=f"{path}: {tensor.name}",
                    fix="remove the file that does not belong to this checkpoint",
                )
            found[tensor.name] = (tensor, path.name)
    index = folder / INDEX
    if index.is_file():
        for name, file in _weight_map(index).items():
            if name not in found or found[name][1] != file:
                raise SpecdeckError(
                    f"the index puts tensor {name!r} into {file}, whose header does not have it",
                    where=f"{index}: weight_map.{name}",
                    fix="index and weights are of different revisions: download the checkpoint again",
                )
    return tuple(tensor for tensor, _ in found.values())


def check_hashes(folder: Path, expected: Mapping[str, str]) -> None:
    """Hash files and compare. Reads every byte: only on request.

    Raises:
        SpecdeckError: a file is missing or differs.
    """
    for name, sha256 in sorted(expected.items()):
        path = folder / name
        if Path(name).name != name:
            raise SpecdeckError("a pinned file must lie in the checkpoint's folder", where=name, fix="correct the name")
        try:
            with path.open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise SpecdeckError(
                f"cannot be read: {error.strerror or error}", where=str(path), fix="download the checkpoint again"
            ) from error
        if actual != sha256:
            raise SpecdeckError(
                f"has sha256 {actual}, and {sha256} was expected",
                where=str(path),
                fix="download the file again, or pin the new one",
            )


def _expanded(path: str, env: Mapping[str, str]) -> str:
    """Expand variables, then `~`; a variable that is not set stays as it is written."""
    return str(Path(_VARIABLE.sub(lambda m: env.get(m[1] or m[2], m[0]), path)).expanduser())


def _main(store: Path) -> str | None:
    ref = store / "refs" / "main"
    try:
        text = ref.read_bytes()[:200].decode("ascii", "replace").strip()
    except OSError:
        return None
    if not _REVISION.fullmatch(text):
        raise SpecdeckError(
            "does not hold a commit hash", where=str(ref), fix="download the repository again, or pin `revision`"
        )
    return text


def _weight_map(index: Path) -> dict[str, str]:
    found = read_object(index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise _bad_index(index, "weight_map", "is not an object with at least one tensor")
    known: set[str] = set()
    for name, file in found.items():
        if not isinstance(file, str) or not file.endswith(".safetensors") or not _plain(file):
            raise _bad_index(index, f"weight_map.{name}", "does not name a .safetensors file beside the index")
        known.add(file)
    if len(known) > MOST_SHARDS:
        raise _bad_index(index, "weight_map", f"names {len(known)} files, more than {MOST_SHARDS}")
    missing: Sequence[str] = sorted(file for file in known if not (index.parent / file).is_file())
    if missing:
        raise _bad_index(index, "weight_map", f"names {len(missing)} files that are not there, first {missing[0]}")
    return found


def _plain(name: str) -> bool:
    return "/" not in name and "\\" not in name and "\0" not in name and len(name) < 200


def _bad_index(index: Path, key: str, what: str) -> SpecdeckError:
    return SpecdeckError(f"the index's {key[:200]} {what}", where=f"{index}: {key[:200]}", fix="download it again")
