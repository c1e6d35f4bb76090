"""A double of a vLLM server process, for faults that a real one does not produce on demand. TMPDIR says which fault."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from aiohttp import web

FAULT = os.environ.get("TMPDIR", "")
ARGUMENTS = sys.argv[1:]
MODEL = ARGUMENTS[ARGUMENTS.index("--served-model-name") + 1]
PORT = int(ARGUMENTS[ARGUMENTS.index("--port") + 1])
answers = 0


async def handle(request: web.Request) -> web.Response:
    global answers  # noqa: PLW0603 - one process, one counter
    body: dict[str, Any] = {}
    match request.path:
        case "/health":
            return web.Response(status=503 if FAULT == "hang" else 200)
        case "/version":
            body = {"version": "0.32.0"}
        case "/v1/models":
            body = {"data": [{"id": MODEL}]}
        case "/metrics":
            labels = f'engine="0",model_name="{MODEL}"'
            lines = [
                f"vllm:num_requests_running{{{labels}}} 0.0",
                f"vllm:generation_tokens_total{{{labels}}} {answers}.0",
            ]
            if FAULT == "drafts":
                lines.append(f"vllm:spec_decode_num_drafts_total{{{labels}}} {answers}.0")
            return web.Response(text="\n".join(lines) + "\n")
        case _:
            answers += 1
            body = {"choices": [{}], "usage": {"completion_tokens": 24}}
    return web.json_response(body)


def main() -> None:
    print("(APIServer pid=1) INFO 12-01 04:00:00 [entry.py:140] Starting vLLM server", flush=True)
    if FAULT == "crash":
        time.sleep(0.3)
        raise ValueError("bad head size 32")
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    web.run_app(app, host="127.0.0.1", port=PORT, print=None, handle_signals=True, reuse_address=True)


if __name__ == "__main__":
    main()
