"""The table of docs/scale.md that says what an archive costs, made from what `make perf-storage` measured."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

RESULTS = "bench/perf/storage.json"
NOT_MEASURED = "Not measured yet on an idle machine: `make perf-storage`."
FIGURES: tuple[tuple[str, Callable[[dict[str, Any]], float], str], ...] = (
    ("add all, s", lambda found: found["write_s"], ".2f"),
    ("slowest addition, s", lambda found: found["slowest_add_s"], ".2f"),
    ("merge, s", lambda found: found["merge_s"], ".2f"),
    ("size, MB", lambda found: found["bytes"] / 1e6, ".1f"),
    ("peak memory, MB", lambda found: found["peak_mb"], ".0f"),
    ("question about one recipe, s", lambda found: found["query_s"]["one_recipe"], ".3f"),
    ("about every recipe, s", lambda found: found["query_s"]["every_recipe"], ".3f"),
    ("newest run against the one before, s", lambda found: found["query_s"]["newest_against_before"], ".3f"),
    ("the same before merging, s", lambda found: found["query_s_before_merge"]["newest_against_before"], ".3f"),
)


def storage_table(root: Path, _argument: str) -> str:
    """Costs by number of cells, and how each grows; what was measured, where and when.

    Raises:
        SpecdeckError: the result file is damaged.
    """
    path = root / RESULTS
    if not path.is_file():
        return NOT_MEASURED
    try:
        document = json.loads(path.read_bytes())
        found = sorted(document["results"], key=lambda one: one["cells"])
        sizes = [one["cells"] for one in found]
        machine = document["machine"]
        lines = [
            "| | " + " | ".join(f"{size:,} cells" for size in sizes) + " | grows as |",
            "|---|" + "--:|" * (len(sizes) + 1),
        ]
        for name, figure, form in FIGURES:
            values = [figure(one) for one in found]
            cells = [format(value, form) for value in values]
            lines.append(f"| {name} | {' | '.join(cells)} | {_growth(sizes, values)} |")
        about = (
            f"`{document['command']}`, {document['date']}: {machine['cpu']}, {machine['cores']} cores, Python "
            f"{machine['python']}, DuckDB {machine['duckdb']}, pyarrow {machine['pyarrow']}; "
            f"{found[0]['cells_an_add']:,} cells an addition."
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SpecdeckError(
            f"not what make perf-storage writes: {error!r}", where=RESULTS, fix="make perf-storage, on an idle machine"
        ) from error
    return "\n".join([*lines, "", about])


def _growth(sizes: Sequence[int], values: Sequence[float]) -> str:
    """The exponent of a power law: least squares of log(value) on log(size)."""
    if len(sizes) < 2 or min(values) <= 0:
        return "–"
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    return f"n^{slope:.2f}"
