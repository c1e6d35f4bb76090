"""A data set file of the hub: fetched once at its commit, and refused with the hub's own reason."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = f"hf:owner/set@{COMMIT}:data/questions.jsonl"
CONTENT = b'{"id": "q1", "category": "c", "prompt": "why?"}\n'
TOKEN = "hf_" + "x" * 34
COMMAND = """
import sys
from specdeck.errors import SpecdeckError
from specdeck.load.hub import hub_file
try:
    sys.stdout.write(hub_file(sys.argv[1]).read_text())
except SpecdeckError as error:
    sys.exit(str(error))
"""


class _Hub(BaseHTTPRequestHandler):
    status = 200
    asked: tuple[str, ...] = ()

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        type(self).asked += (f"{self.command} {self.path}",)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(CONTENT)))
        if self.status == 200:
            self.send_header("ETag", '"e1"')
            self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if with_body:
            self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[tuple[str, type[_Hub]]]:
    handler = type("Hub", (_Hub,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


def _fetch(endpoint: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **more,
    }
    words = [sys.executable, "-c", COMMAND, NAME]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_file_comes_from_its_commit_and_is_not_fetched_again(hub: tuple[str, type[_Hub]], tmp_path: Path) -> None:
    endpoint, handler = hub
    first = _fetch(endpoint, tmp_path)
    assert (first.returncode, first.stdout) == (0, CONTENT.decode()), first.stderr
    assert f"/datasets/owner/set/resolve/{COMMIT}/data/questions.jsonl" in handler.asked[-1]
    seen = len(handler.asked)
    again = _fetch(endpoint, tmp_path, HF_HUB_OFFLINE="1")
    assert (again.returncode, again.stdout, len(handler.asked)) == (0, CONTENT.decode(), seen)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_told_with_what_to_do_and_without_the_token(
    hub: tuple[str, type[_Hub]], tmp_path: Path, status: int
) -> None:
    endpoint, handler = hub
    handler.status = status
    refused = _fetch(endpoint, tmp_path)
    assert refused.returncode == 1
    assert "the data set cannot be had" in refused.stderr
    assert "Fix:" in refused.stderr
    assert TOKEN not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr


def test_offline_without_a_copy_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    missing = _fetch("http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    assert missing.returncode == 1
    assert "the data set cannot be had" in missing.stderr
