"""What a quality check of an arm leaves beside a run: RUN/quality/CHECK-ARM.json, one file a check and arm.

The check decides its own verdict; gates only read it. A check that could not be made says why and never passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from specdeck.errors import SpecdeckError
from specdeck.results.atomic import replace_file, storing
from specdeck.results.reading import checked_name, damaged, read_struct
from specdeck.results.schema import Strict

if TYPE_CHECKING:
    from pathlib import Path

QUALITY_VERSION = 1
QUALITY_FOLDER = "quality"


class CheckResult(Strict, frozen=True, kw_only=True):
    """One check of one arm.

    Attributes:
        check: its name, for example gsm8k.
        arm: which arm of the run was checked.
        verdict: `unmeasurable` when the check could not be made.
        n: how many questions, texts or requests were judged.
        value: the figure that was judged, in `unit`; None where there is none.
        interval: lowest and highest of the 95 % interval of `value`.
        reference: what `value` was compared with.
        reason: why it failed or could not be made; required then.
        details: whatever else the check wants to keep, as JSON.
    """

    schema_version: int = QUALITY_VERSION
    check: str
    arm: str
    verdict: Literal["pass", "fail", "unmeasurable"]
    n: int
    value: float | None = None
    unit: str | None = None
    interval: tuple[float, float] | None = None
    reference: float | None = None
    reason: str | None = None
    details: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse results that contradict themselves (ValueError)."""
        if self.verdict != "unmeasurable" and self.n < 1:
            raise ValueError(f"a check that judged nothing cannot {self.verdict}")
        if self.verdict != "pass" and not self.reason:
            raise ValueError(f"verdict {self.verdict} without a reason")
        numbers = (self.value, self.reference, *(self.interval or ()))
        if any(number is not None and not math.isfinite(number) for number in numbers):
            raise ValueError("figures must be finite; not available is null")


def write_check(run_dir: Path, result: CheckResult) -> Path:
    """Store a result in a run's folder; an older one of the same check and arm is replaced.

    Raises:
        SpecdeckError: it could not be written, or a name cannot be that of a file.
    """
    name = f"{checked_name(result.check, 'check')}-{checked_name(result.arm, 'arm')}.json"
    path = run_dir / QUALITY_FOLDER / name
    with storing(f"the check {result.check} of {result.arm}", path):
        path.parent.mkdir(exist_ok=True)
        replace_file(path, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def read_checks(run_dir: Path) -> tuple[CheckResult, ...]:
    """Read what checks left in a run's folder, by file name; none is an empty tuple.

    Raises:
        SpecdeckError: a file is damaged, or speaks of another check than its name says.
    """
    found = [result for _, result in each_check(run_dir)]
    for result in found:
        if isinstance(result, SpecdeckError):
            raise result
    return tuple(result for result in found if isinstance(result, CheckResult))


def each_check(run_dir: Path) -> list[tuple[Path, CheckResult | SpecdeckError]]:
    """Read every result with its file, by file name; a damaged one as the error that says why."""
    found: list[tuple[Path, CheckResult | SpecdeckError]] = []
    # A killed writer leaves a hidden file behind.
    for path in sorted((run_dir / QUALITY_FOLDER).glob("[!.]*.json")):
        try:
            found.append((path, _read(path)))
        except SpecdeckError as error:
            found.append((path, error))
    return found


def _read(path: Path) -> CheckResult:
    result = read_struct(path, CheckResult, QUALITY_VERSION)
    if path.stem != f"{result.check}-{result.arm}":
        raise damaged(str(path), f"it is a result of {result.check} of {result.arm}")
    return result
