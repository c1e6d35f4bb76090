"""Keep one comment of ours on a pull request: `pr_comment.py FILE`. The file's first line is the hidden marker.

Standard library only: it runs where nothing is installed. Reads GITHUB_TOKEN, GITHUB_REPOSITORY, PULL_REQUEST and
GITHUB_API_URL from the environment.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PER_PAGE, MOST_PAGES = 100, 50
TIMEOUT_S = 60
MARKER = "<!-- specdeck comparison: "


def main(arguments: list[str]) -> int:
    """Update the comment that begins with the marker, or make it. A token that may not write is told, not a failure."""
    try:
        (file,) = arguments
        body = Path(file).read_text(encoding="utf-8")
        repository, number = os.environ["GITHUB_REPOSITORY"], int(os.environ["PULL_REQUEST"])
    except (ValueError, KeyError, OSError) as problem:
        print(
            f"error: {problem!r}\n  Fix: PULL_REQUEST=7 GITHUB_REPOSITORY=owner/name GITHUB_TOKEN=… pr_comment.py FILE"
        )
        return 2
    marker = body.partition("\n")[0]
    if not marker.startswith(MARKER):
        print(f"error: {file} does not begin with a marker\n  Fix: give comparison.md of specdeck compare --write")
        return 2
    base = f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{repository}/issues"
    try:
        found = _find(f"{base}/{number}/comments", marker)
        if found is None:
            _call("POST", f"{base}/{number}/comments", {"body": body})
        else:
            _call("PATCH", f"{base}/comments/{found}", {"body": body})
    except urllib.error.HTTPError as error:
        if error.code not in (401, 403):
            raise
        print(f"no comment was written: the token may not write to pull requests ({error.code})")
    return 0


def _find(url: str, marker: str) -> int | None:
    for page in range(1, MOST_PAGES + 1):
        comments = _call("GET", f"{url}?per_page={PER_PAGE}&page={page}")
        for comment in comments:
            if str(comment.get("body", "")).startswith(marker):
                return int(comment["id"])
        if len(comments) < PER_PAGE:
            return None
    return None


def _call(method: str, url: str, body: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - the address comes from the workflow
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ.get('GITHUB_TOKEN', '')}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
