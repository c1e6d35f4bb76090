"""GPUs by a DCGM exporter read as by the driver; what is no exporter is refused before anything is measured."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import SpecdeckError
from specdeck.telemetry.dcgm import open_exporter
from specdeck.telemetry.host import HostSampler

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = """\
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",Hostname="h"} 250.5
DCGM_FI_DEV_POWER_USAGE{gpu="10",UUID="GPU-c",Hostname="h"} 70
DCGM_FI_DEV_POWER_USAGE{gpu="2",UUID="GPU-b",Hostname="h"} 60
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",Hostname="h"} 5000
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",UUID="GPU-a",Hostname="h"} 32
"""


@contextmanager
def exporter(status: int, text: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_devices_come_in_order_with_units_as_by_nvml_and_what_is_not_exported_is_none() -> None:
    with exporter(200, TEXT) as url:
        first, second, third = open_exporter(url).read()
    assert (first["power_w"], first["energy_j"], first["throttle_reasons"]) == (250.5, 5.0, 32.0)
    assert (second["power_w"], third["power_w"]) == (60.0, 70.0)
    assert second["energy_j"] is None
    assert first["temperature_c"] is None


def test_a_cell_is_watched_by_it_and_an_exporter_that_goes_away_leaves_what_was_read() -> None:
    with exporter(200, TEXT) as url:
        source = open_exporter(url)
        sampler = HostSampler(interval_s=60, gpus=source)
        sampler.__enter__()
    sampler.__exit__(None, None, None)
    gpus = sampler.use().gpus
    assert gpus is not None
    assert [device["power_w"] for device in gpus] == [250.5, 60.0, 70.0]
    assert gpus[0]["thermal_throttled_share"] == 1.0


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [(500, TEXT, "500"), (200, "<html>", "not a sample"), (200, "up 1\n", "no figures of a GPU")],
)
def test_what_is_no_exporter_is_refused(status: int, text: str, says: str) -> None:
    with exporter(status, text) as url, pytest.raises(SpecdeckError, match=says):
        open_exporter(url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:9400", "http://"])
def test_what_is_no_http_address_is_refused(url: str) -> None:
    with pytest.raises(SpecdeckError, match="no http URL"):
        open_exporter(url)
