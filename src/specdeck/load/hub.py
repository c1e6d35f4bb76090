"""A prompt file of a data set on the Hugging Face hub: one file, at a fixed commit, kept in the hub's own cache."""

from __future__ import annotations

import re
from pathlib import Path

from specdeck.errors import SpecdeckError

PREFIX = "hf:"
_NAME = re.compile(
    r"hf:(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]+)@(?P<revision>[0-9a-f]{40}):(?P<file>[\w.-]+(/[\w.-]+)*\.(jsonl|json|csv))"
)


def hub_file(name: str) -> Path:
    """Return the local path of `hf:OWNER/NAME@COMMIT:FILE`, downloaded unless the cache has it.

    A commit and not a branch: a set that changes under a run's name would make runs of one name different experiments.
    The token comes from where huggingface_hub finds it (HF_TOKEN); HF_HUB_OFFLINE and HF_ENDPOINT hold.

    Raises:
        SpecdeckError: another form, or the file cannot be had; the reason is named.
    """
    found = _NAME.fullmatch(name)
    if found is None or ".." in found["file"].split("/"):
        raise SpecdeckError(
            f"{name!r} names no file of a data set on the hub",
            where="--prompts",
            fix="hf:OWNER/NAME@COMMIT:FILE with the commit's 40 hex digits and a .jsonl, .json or .csv file",
        )
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - only here, and it takes its time
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        return Path(hf_hub_download(found["repo"], found["file"], repo_type="dataset", revision=found["revision"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        said = str(error).strip().splitlines()
        raise SpecdeckError(
            f"the data set cannot be had: {type(error).__name__}: {said[0] if said else 'no reason given'}",
            where=name,
            fix="check owner, name, commit and file; for a gated set accept its terms and export HF_TOKEN",
        ) from error
