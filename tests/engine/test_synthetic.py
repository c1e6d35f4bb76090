"""Acceptance that is asked for, on the real engine: realised, changed while the server runs, and kept apart."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from specdeck.errors import EXIT_UNMEASURABLE
from specdeck.results.store import RunStore
from specdeck.run.synthetic import missed

if TYPE_CHECKING:
    from pathlib import Path

RATES = (0.9, 0.5, 0.2)


@pytest.mark.timeout(400)
def test_a_shape_without_weights_is_served_and_its_steps_are_timed(tmp_path: Path) -> None:
    words = ["bench", "tiny-next-cpu", "--plan", "smoke", "--arm", "none", "--arm", "mtp", "--results", str(tmp_path)]
    words += ["--dummy-weights", "--synthetic-acceptance", "2", "--num-prompts", "6", "--output-len", "32"]
    done = subprocess.run(
        [sys.executable, "-m", "specdeck", *words], check=False, capture_output=True, text=True, timeout=380
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "Acceptance length at which a drafter breaks even" in done.stdout
    (folder,) = tmp_path.iterdir()
    store = RunStore.open(folder)
    run = store.run()
    assert run.acceptance_kind == "synthetic"
    for info in run.arms.values():
        command = " ".join(info.command)
        assert "--load-format dummy" in command
        assert ".cache/dummy/target-" in command
    assert {cell.status for cell, _ in store.cells()} == {"ok"}
    lengths = {cell.arm: sum(cell.counters.accepted_per_pos or ()) for cell, _ in store.cells()}
    assert lengths["mtp"] > 0


@pytest.mark.timeout(400)
def test_two_acceptances_on_one_server_are_realised_and_no_gate_takes_them(tmp_path: Path) -> None:
    words = ["bench", "tiny-next-cpu", "--plan", "smoke", "--arm", "dflash2", "--results", str(tmp_path)]
    words += ["--num-speculative-tokens", "dflash2=3", "--num-prompts", "8", "--output-len", "64"]
    words += ["--synthetic-acceptance", "2", "--synthetic-acceptance", ",".join(map(str, RATES))]
    done = subprocess.run(
        [sys.executable, "-m", "specdeck", *words], check=False, capture_output=True, text=True, timeout=380
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count("starting vLLM") == 1
    assert "acceptance rates changed on the server of dflash2-3-at-2_00" in done.stdout
    (folder,) = tmp_path.iterdir()
    store = RunStore.open(folder)
    run, cells = store.run(), [cell for cell, _ in store.cells()]
    assert run.acceptance_kind == "synthetic"
    assert {name: arm.asked_rates for name, arm in run.arms.items()} == {
        "dflash2-3-at-2_00": (1, 0, 0),
        "dflash2-3-at-r2_60": RATES,
    }
    assert len(cells) == 2
    for cell in cells:
        assert cell.status == "ok", cell.findings
        rates = run.arms[cell.arm].asked_rates
        assert rates is not None
        assert cell.counters.drafts is not None
        assert cell.counters.drafts > 100
        assert missed(rates, cell.counters) is None
    certain = next(cell for cell in cells if cell.arm == "dflash2-3-at-2_00")
    assert certain.counters.accepted_per_pos is not None
    assert certain.counters.accepted_per_pos[1:] == (0, 0)
    refused = subprocess.run(
        [sys.executable, "-m", "specdeck", "compare", str(folder), str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == EXIT_UNMEASURABLE
    assert "asked for, not measured" in refused.stderr
