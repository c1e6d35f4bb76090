"""The comment on a pull request, against a server that keeps comments as GitHub does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from specdeck.paths import repo_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = "<!-- specdeck comparison: default -->\n### specdeck\n\nfirst"


class Host(ThreadingHTTPServer):
    """Comments of one pull request, a hundred a page; `refuse` answers writes with 403."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.refuse = False
        self.tokens: set[str | None] = set()


class _Handler(BaseHTTPRequestHandler):
    server: Host

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def _answer(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> str:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        return str(json.loads(text)["body"])

    def do_GET(self) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        page = int(self.path.rpartition("page=")[2])
        self._answer(self.server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        if self.server.refuse:
            return self._answer({"message": "Resource not accessible by integration"}, 403)
        made = {"id": len(self.server.comments) + 1, "body": self._body()}
        self.server.comments.append(made)
        return self._answer(made, 201)

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self.server.comments[number - 1]["body"] = self._body()
        self._answer(self.server.comments[number - 1])


@pytest.fixture
def host() -> Iterator[Host]:
    server = Host()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _comment(host: Host, tmp_path: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "comment.md").write_text(body)
    variables = {
        **os.environ,
        "GITHUB_API_URL": f"http://127.0.0.1:{host.server_address[1]}",
        "GITHUB_REPOSITORY": "someone/something",
        "GITHUB_TOKEN": "secret-token",
        "PULL_REQUEST": "7",
        "NO_PROXY": "127.0.0.1",
        **environment,
    }
    command = [sys.executable, str(repo_root() / "tools" / "pr_comment.py"), str(tmp_path / "comment.md")]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)


def test_the_first_check_makes_a_comment_and_later_ones_change_it(host: Host, tmp_path: Path) -> None:
    host.comments = [{"id": i + 1, "body": f"talk {i}"} for i in range(130)]
    assert _comment(host, tmp_path, BODY).returncode == 0
    assert len(host.comments) == 131
    assert _comment(host, tmp_path, BODY.replace("first", "second")).returncode == 0
    assert len(host.comments) == 131
    assert host.comments[-1]["body"].endswith("second")
    assert host.tokens == {"Bearer secret-token"}


def test_comments_of_other_gate_files_are_left_alone(host: Host, tmp_path: Path) -> None:
    other = BODY.replace("default", "strict")
    host.comments = [{"id": 1, "body": other}]
    assert _comment(host, tmp_path, BODY).returncode == 0
    assert [c["body"] for c in host.comments] == [other, BODY]


def test_a_token_that_may_not_write_is_told_and_fails_nothing(host: Host, tmp_path: Path) -> None:
    host.refuse = True
    done = _comment(host, tmp_path, BODY)
    assert done.returncode == 0
    assert "may not write" in done.stdout
    assert "secret-token" not in done.stdout + done.stderr


@pytest.mark.parametrize(("body", "number"), [("no marker", "7"), (BODY, "seven")])
def test_misuse_is_an_error_with_a_fix(host: Host, tmp_path: Path, body: str, number: str) -> None:
    done = _comment(host, tmp_path, body, PULL_REQUEST=number)
    assert done.returncode == 2
    assert "Fix:" in done.stdout
    assert host.comments == []
