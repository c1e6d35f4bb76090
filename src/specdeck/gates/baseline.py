"""The committed file that a candidate is compared with: samples by prompt, fingerprint, noise floor of an A/A."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from specdeck.errors import SpecdeckError
from specdeck.gates.measurement import Measurement, mismatches
from specdeck.results.schema import CounterDelta, Strict
from specdeck.stats.comparison import Key, compare, noise_floors
from specdeck.stats.sample import COLUMNS, Round, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

BASELINE_VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
_FIX = "write it again: specdeck baseline set RUN --aa RUN2"

Grid = tuple[tuple[float | None, ...], ...]


class StoredRound(Strict, frozen=True, kw_only=True):
    """A valid cell as a whole, as `stats.sample.Round`."""

    round: int
    duration_s: float
    tokens: int | None
    requests: int
    failed: int
    counters: CounterDelta


class StoredSample(Strict, frozen=True, kw_only=True):
    """`stats.sample.Sample` as JSON: sums[column][prompt][round], accepted_at[position][prompt][round]."""

    arm: str
    concurrency: int
    prompts: tuple[str, ...]
    rounds: tuple[StoredRound, ...]
    sums: dict[str, Grid]
    accepted_at: tuple[Grid, ...]


class StoredFloor(Strict, frozen=True, kw_only=True):
    """How far a row moved, at most, when nothing had changed."""

    key: Key
    floor: float


class Baseline(Strict, frozen=True, kw_only=True):
    """The file. `aa_run_id` names the repetition that the floors come from."""

    schema_version: int = BASELINE_VERSION
    run_id: str
    created_at: str
    device: str
    aa_run_id: str | None
    fingerprint: dict[str, str | None]
    floors: tuple[StoredFloor, ...]
    samples: tuple[StoredSample, ...]


def make_baseline(run: Measurement, repetition: Measurement | None) -> Baseline:
    """Make a baseline of a run, with floors from its repetition.

    Raises:
        SpecdeckError: the run is incomplete, has invalid cells or none, or the repetition is not one of it.
    """
    for side in filter(None, (run, repetition)):
        if side.invalid or not side.complete or not side.samples:
            why = "; ".join(side.invalid[:3]) or ("it is not complete" if side.samples else "it has no valid cell")
            raise SpecdeckError(
                f"this run cannot be a baseline: {why}",
                where=side.name,
                fix="measure again until every cell is valid: specdeck bench …",
            )
    floors: tuple[StoredFloor, ...] = ()
    if repetition is not None:
        floors = tuple(StoredFloor(key=key, floor=floor) for key, floor in floors_of(run, repetition).items())
    return Baseline(
        run_id=run.name,
        created_at=run.created_at,
        device=run.device,
        aa_run_id=repetition.name if repetition else None,
        fingerprint=run.fingerprint,
        floors=floors,
        samples=tuple(_store(sample) for sample in run.samples.values()),
    )


def floors_of(run: Measurement, repetition: Measurement) -> dict[Key, float]:
    """Noise floors from an A/A.

    Raises:
        SpecdeckError: the two are the same run, or were not measured in the same way in the same place.
    """
    if run.name == repetition.name:
        raise SpecdeckError(
            "a run is not its own repetition",
            where=run.name,
            fix="measure the same once more: specdeck bench … --fresh",
        )
    differ = mismatches(run, repetition)
    if differ:
        name, ours, theirs = differ[0]
        raise SpecdeckError(
            f"not a repetition of {run.name}: its {name} is {theirs}, not {ours}",
            where=repetition.name,
            fix="name a second run of the same recipe, plan and host",
        )
    return noise_floors(compare(run.samples, repetition.samples))


def from_baseline(stored: Baseline) -> Measurement:
    """Bring a baseline file back into the form of a measurement."""
    loaded = [_load(sample) for sample in stored.samples]
    return Measurement(
        name=stored.run_id,
        created_at=stored.created_at,
        device=stored.device,
        fingerprint=stored.fingerprint,
        samples={(sample.arm, sample.concurrency): sample for sample in loaded},
        floors={item.key: item.floor for item in stored.floors},
        floor_from=stored.aa_run_id,
    )


def encode(baseline: Baseline) -> bytes:
    """JSON with a line for each head entry, floor and sample, so that a diff shows which arm changed."""
    lines = []
    for name in Baseline.__struct_fields__:
        value = getattr(baseline, name)
        if name in ("floors", "samples"):
            items = ",\n  ".join(msgspec.json.encode(item).decode() for item in value)
            text = f"[\n  {items}\n ]" if items else "[]"
        else:
            text = msgspec.json.encode(value).decode()
        lines.append(f' "{name}": {text}')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_baseline(path: Path) -> Measurement:
    """Read a baseline file.

    Raises:
        SpecdeckError: unreadable, too large, damaged, or of a newer specdeck.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecdeckError(f"the baseline cannot be read: {error.strerror}", where=str(path), fix=_FIX) from error
    if len(data) > MAX_BYTES:
        raise SpecdeckError(f"larger than {MAX_BYTES // 2**20} MiB: not a baseline", where=str(path), fix=_FIX)
    try:
        stored = msgspec.json.decode(data, type=Baseline)
        if stored.schema_version != BASELINE_VERSION:
            raise msgspec.ValidationError(f"schema version {stored.schema_version}, this specdeck reads 1")
        return from_baseline(stored)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise SpecdeckError(f"the baseline is damaged: {error}", where=str(path), fix=_FIX) from error


def _store(sample: Sample) -> StoredSample:
    return StoredSample(
        arm=sample.arm,
        concurrency=sample.concurrency,
        prompts=sample.prompts,
        rounds=tuple(
            StoredRound(**{name: getattr(item, name) for name in StoredRound.__struct_fields__})
            for item in sample.rounds
        ),
        sums={name: _grid(column) for name, column in sample.sums.items()},
        accepted_at=tuple(_grid(sample.accepted_at[:, :, i]) for i in range(sample.accepted_at.shape[2])),
    )


def _load(stored: StoredSample) -> Sample:
    shape = (len(stored.prompts), len(stored.rounds))
    if set(stored.sums) != set(COLUMNS):
        raise ValueError(f"sums of {stored.arm} must be {', '.join(COLUMNS)}")
    positions = [_array(grid, shape) for grid in stored.accepted_at]
    return Sample(
        arm=stored.arm,
        concurrency=stored.concurrency,
        prompts=stored.prompts,
        rounds=tuple(
            Round(**{name: getattr(item, name) for name in StoredRound.__struct_fields__}) for item in stored.rounds
        ),
        sums={name: _array(grid, shape) for name, grid in stored.sums.items()},
        accepted_at=np.stack(positions, axis=2) if positions else np.zeros((*shape, 0)),
    )


def _grid(column: NDArray[np.float64]) -> Grid:
    return tuple(tuple(None if math.isnan(x) else float(f"{x:.9g}") for x in row) for row in column.tolist())


def _array(grid: Grid, shape: tuple[int, int]) -> NDArray[np.float64]:
    found = np.array([[math.nan if x is None else x for x in row] for row in grid], dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"a table has the shape {found.shape}, not prompts × rounds {shape}")
    return found
