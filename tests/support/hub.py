"""A loopback server that plays the Hugging Face hub: model info, tree, files with ranges; it breaks on demand."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO, COMMIT = "some/model", "c" * 40


class Hub:
    """What the server has and how it misbehaves.

    Attributes:
        files: name to contents; .safetensors are large files, which the hub describes by SHA-256.
        claimed: name to contents the hub's description is made from, where it differs.
        break_after: name to number of bytes after which the connection breaks; once.
        stall_after: the same, for a connection that is held until `go_on` is set; `stalled` tells that it is.
        status: HTTP status of every answer, with `code` as the hub's own error code.
        asked: method, path and Range of each request.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.claimed: dict[str, bytes] = {}
        self.break_after: dict[str, int] = {}
        self.stall_after: dict[str, int] = {}
        self.stalled, self.go_on = threading.Event(), threading.Event()
        self.status, self.code = 200, ""
        self.asked: list[tuple[str, str, str | None]] = []
        self.tokens: set[str | None] = set()
        self.url = ""

    def described(self, name: str) -> dict[str, Any]:
        raw = self.claimed.get(name, self.files[name])
        blob = hashlib.sha1(f"blob {len(raw)}\0".encode() + raw).hexdigest()
        entry: dict[str, Any] = {"blobId": blob, "size": len(raw), "oid": blob}
        if name.endswith(".safetensors"):
            sha = hashlib.sha256(raw).hexdigest()
            entry["lfs"] = {"sha256": sha, "oid": sha, "size": len(raw), "pointerSize": 100}
        return entry

    def gets(self, name: str) -> list[str | None]:
        """Ranges of the downloads of a file."""
        return [span for method, path, span in self.asked if method == "GET" and path.endswith(f"/{name}")]


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.asked.append((self.command, path, self.headers.get("Range")))
        hub.tokens.add(self.headers.get("Authorization"))
        if hub.status != 200:
            self.send_response(hub.status)
            for name, value in (("X-Error-Code", hub.code), ("Content-Length", "0")):
                self.send_header(name, value)
            self.end_headers()
        elif path.startswith(f"/api/models/{REPO}/tree/"):
            self.json([{"type": "file", "path": name, **hub.described(name)} for name in hub.files])
        elif path.startswith(f"/api/models/{REPO}"):
            files = [{"rfilename": name, **hub.described(name)} for name in hub.files]
            self.json({"id": REPO, "modelId": REPO, "sha": COMMIT, "siblings": files})
        elif path.startswith(f"/{REPO}/resolve/{COMMIT}/"):
            self.file(path.split("/", 5)[5], body=body)
        else:
            self.send_error(404)

    def json(self, value: Any) -> None:
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def file(self, name: str, *, body: bool) -> None:
        raw, about = self.hub.files[name], self.hub.described(name)
        begin = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if begin else 200)
        etag = about["lfs"]["sha256"] if "lfs" in about else about["blobId"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Content-Length": str(len(raw) - begin)}
        if "lfs" in about:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(raw))}
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(raw) - 1}/{len(raw)}"
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        if not body:
            return
        stall = self.hub.stall_after.pop(name, None)
        end = stall or self.hub.break_after.pop(name, len(raw))
        with contextlib.suppress(OSError):
            self.wfile.write(raw[begin:end])
            self.wfile.flush()
        if stall:
            self.hub.stalled.set()
            self.hub.go_on.wait(60)
        if end < len(raw):
            self.close_connection = True
            self.connection.close()


@contextlib.contextmanager
def serve() -> Iterator[Hub]:
    """Run a hub on a free loopback port."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
