"""Downloads a recipe's checkpoints into the Hugging Face cache: pinned, resumable, checked against the hub's hashes.

Transfer and cache layout are huggingface_hub's. What is checked here: space before, size and hash of every file after.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from specdeck.checkpoint.transfer import MOST_BYTES, PART, download_blob
from specdeck.errors import EXIT_FAILED, EXIT_UNMEASURABLE, SpecdeckError
from specdeck.load.redact import one_line, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from huggingface_hub.hf_api import ModelInfo

    from specdeck.recipe.models import Checkpoint

SPARE = 2**30
"""Bytes that stay free on the disk after a download."""
# Other formats of the same weights, which vLLM does not read where there are safetensors.
OTHER_FORMATS = ("*.bin", "*.pth", "*.pt", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "original/*", "onnx/*")
AT_ONCE = 4
"""Files that are downloaded at the same time."""
_CHUNK = 2**22
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """One file as the hub describes it. `sha256` for large files, `blob` (git's SHA-1) for the others; bytes."""

    name: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class Fetched:
    """A repository on this machine. `downloaded` and `checked` count files."""

    repo: str
    revision: str
    folder: Path
    downloaded: int
    checked: int


def fetch(
    checkpoint: Checkpoint,
    *,
    cache: Path,
    verify: bool,
    say: Callable[[str], None],
    endpoint: str | None = None,
) -> Fetched:
    """Download what is missing of a repository at its pinned revision, and check what came.

    A download that was interrupted goes on where it stopped. The token is HF_TOKEN, or the one that `hf auth login`
    stored; it appears in no message.

    Args:
        checkpoint: with `repo`; without `revision` the main branch's commit of now is taken, and named.
        cache: the Hugging Face cache.
        verify: hash the files that were there before, too.
        say: told what happens.
        endpoint: the hub's address; None: HF_ENDPOINT, else the public one.

    Raises:
        SpecdeckError: offline, no access, no such revision, not enough space, a broken transfer, or a file that is not
            the hub's (it is removed then).
    """
    from huggingface_hub import HfApi, get_token, hf_hub_url, snapshot_download  # noqa: PLC0415 - only this command needs it

    assert checkpoint.repo is not None
    repo, token = checkpoint.repo, get_token()
    if offline():
        return _offline(checkpoint, cache)
    api = HfApi(endpoint=endpoint or os.environ.get("HF_ENDPOINT") or None, token=token)
    with failures(repo, checkpoint.revision, token):
        info = api.model_info(repo, revision=checkpoint.revision, files_metadata=True, timeout=_TIMEOUT_S)
    revision = _revision(checkpoint, info)
    if checkpoint.revision is None:
        say(f"{repo}: no revision is pinned; this is commit {revision}")
    files = wanted(info)
    snapshot = cache / ("models--" + repo.replace("/", "--")) / "snapshots" / revision
    blobs = snapshot.parent.parent / "blobs"
    missing = [file for file in files if not _there(snapshot / file.name, file.size)]
    require_space(cache, sum(file.size for file in missing) - _partial(blobs), repo)
    if missing:
        say(f"{repo}: {len(missing)} of {len(files)} files, {sum(f.size for f in missing) / 1e9:.2f} GB, to {cache}")
        for file in missing:
            _remove(snapshot / file.name)  # of another size: the library would take it for complete
        with failures(repo, revision, token):
            _large(missing, blobs, lambda name: hf_hub_url(repo, name, revision=revision, endpoint=api.endpoint), token)
            snapshot_download(
                repo,
                revision=revision,
                cache_dir=cache,
                token=token,
                endpoint=api.endpoint,
                allow_patterns=[file.name for file in files],
            )
    checked = files if verify else missing
    for file in checked:
        check(snapshot / file.name, file)
    say(f"{repo}: complete at {revision}; {len(checked)} files checked against the hub's hashes")
    return Fetched(repo, revision, snapshot, len(missing), len(checked))


def offline() -> bool:
    """Tell whether downloads are switched off, as huggingface_hub reads it."""
    return any(os.environ.get(n, "").upper() in ("1", "ON", "YES", "TRUE") for n in ("HF_HUB_OFFLINE", "HF_OFFLINE"))


def wanted(info: ModelInfo) -> list[RemoteFile]:
    """Return the files that vLLM reads: all but other formats of the weights."""
    found = [
        RemoteFile(s.rfilename, int(s.size or 0), s.lfs.sha256 if s.lfs else None, s.blob_id)
        for s in info.siblings or []
    ]
    if not any(file.name.endswith(".safetensors") for file in found):
        return found
    return [file for file in found if not any(fnmatch(file.name, pattern) for pattern in OTHER_FORMATS)]


def require_space(cache: Path, needed: int, repo: str) -> None:
    """Refuse a download that would fill the disk.

    Raises:
        SpecdeckError: less than `needed` bytes and the spare are free.
    """
    folder = cache.absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > 0 and free < needed + SPARE:
        raise SpecdeckError(
            f"{repo} needs {needed / 1e9:.1f} GB more, and {free / 1e9:.1f} GB are free ({SPARE / 1e9:.0f} stay free)",
            where=str(cache),
            fix=f"free some space (df -h {folder}), or set HF_HUB_CACHE to another disk",
            exit_code=EXIT_UNMEASURABLE,
        )


def check(path: Path, file: RemoteFile) -> None:
    """Hash a file and compare; one that differs is removed, so that the next fetch gets it again.

    Raises:
        SpecdeckError: it is not the hub's, or cannot be read.
    """
    try:
        size = path.stat().st_size
        digest = hashlib.sha256() if file.sha256 else hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        with path.open("rb") as data:
            while chunk := data.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise SpecdeckError(
            f"{file.name} cannot be read: {error.strerror}", where=str(path), fix="run the same command again"
        ) from None
    expected = file.sha256 or file.blob
    if expected is None or digest.hexdigest() == expected:
        return
    _remove(path)
    raise SpecdeckError(
        f"{file.name} is not the hub's file ({digest.name} {digest.hexdigest()[:16]}…, expected {expected[:16]}…); "
        "it has been removed",
        where=str(path),
        fix="run the same command again: only that file is downloaded",
        exit_code=EXIT_FAILED,
    )


@contextmanager
def failures(repo: str, revision: str | None, token: str | None) -> Iterator[None]:
    """Turn what huggingface_hub raises within the block into an error that says what to do, without the token.

    Raises:
        SpecdeckError: the hub refused or the transfer broke.
    """
    import httpx2  # noqa: PLC0415 - only this command needs it
    from huggingface_hub import errors  # noqa: PLC0415

    page = f"https://huggingface.co/{repo}"
    what: str
    try:
        yield
    except errors.GatedRepoError:
        what, fix = "asks for its licence to be accepted first", f"accept it at {page}, then export HF_TOKEN"
    except errors.RevisionNotFoundError:
        what, fix = f"has no revision {revision}", f"look at {page}/commits/main and correct `revision` in the recipe"
    except errors.RepositoryNotFoundError:
        what = "does not exist, or is private and " + ("the token has no access" if token else "no token is given")
        fix = f"check the name at {page}" + ("" if token else ", or export HF_TOKEN")
    except SpecdeckError:
        raise
    except (errors.HfHubHTTPError, httpx2.HTTPError, OSError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            what, fix = (
                f"refuses the token (HTTP {status})",
                "hf auth whoami; then export a valid HF_TOKEN, or unset it",
            )
        else:
            told = one_line(redact(str(error), token), 200) or type(error).__name__
            what, fix = f"could not be downloaded: {told}", "run the same command again: it goes on where it stopped"
    else:
        return
    raise SpecdeckError(f"{repo} {what}", where=f"{repo}@{revision or 'main'}", fix=fix, exit_code=EXIT_UNMEASURABLE)


def _offline(checkpoint: Checkpoint, cache: Path) -> Fetched:
    from specdeck.checkpoint.folder import locate, shards  # noqa: PLC0415

    found = locate(checkpoint, Path(), cache=cache)
    if found is None or found.revision is None or not shards(found.folder):
        raise SpecdeckError(
            f"{checkpoint.repo} is not complete on this machine, and downloads are switched off (HF_HUB_OFFLINE)",
            where=str(cache),
            fix="unset HF_HUB_OFFLINE, or copy the repository's folder from the cache of a machine that has it",
            exit_code=EXIT_UNMEASURABLE,
        )
    return Fetched(str(checkpoint.repo), found.revision, found.folder, 0, 0)


def _revision(checkpoint: Checkpoint, info: ModelInfo) -> str:
    """The commit; one that differs from the pinned one means that the hub answered something else."""
    if info.sha is None or (checkpoint.revision is not None and info.sha != checkpoint.revision):
        raise SpecdeckError(
            f"the hub answers with commit {info.sha}, and {checkpoint.revision} is pinned",
            where=str(checkpoint.repo),
            fix="check HF_ENDPOINT",
            exit_code=EXIT_FAILED,
        )
    return info.sha


def _there(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _remove(path: Path) -> None:
    """Remove a file of a snapshot with the blob that it is a link to."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _large(files: Sequence[RemoteFile], blobs: Path, url: Callable[[str], str], token: str | None) -> None:
    """Download the weights, several at a time; the first failure ends it once the others have ended."""
    large = [file for file in files if file.sha256 and file.size <= MOST_BYTES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tasks = [pool.submit(download_blob, url(f.name), blobs, str(f.sha256), f.size, token) for f in large]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _partial(blobs: Path) -> int:
    """Bytes of interrupted downloads, which are taken up again."""
    return sum(path.stat().st_size for path in blobs.glob(f"*{PART}"))
