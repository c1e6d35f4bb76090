"""Questions to an archive in SQL (DuckDB): a view `cells` over the files that count, and no way to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdeck.archive.columns import COLUMNS, PARTITION
from specdeck.archive.store import INCOMING, read_index
from specdeck.errors import SpecdeckError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MEMORY = "2GB"
TRIES = 3
"""A merge may take a file away between reading its name and reading the file."""


@dataclass(frozen=True)
class Answer:
    """A question's rows: `columns` names them, each row has a value a column, null as None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


def ask(path: Path, sql: str, *, limit: int) -> Answer:
    """Answer one SELECT over the view `cells` (columns.py).

    Args:
        path: the archive.
        sql: one statement that reads.
        limit: most rows that are returned; with more, `truncated` says so.

    Raises:
        SpecdeckError: not one reading statement, not valid SQL, no archive, damaged, or duckdb is not installed.
    """
    duckdb = _duckdb()
    _require_reading(duckdb, sql)
    for attempt in range(1, TRIES + 1):
        try:
            return _run(duckdb, path, sql, limit)
        except duckdb.IOException as error:
            if attempt == TRIES:
                raise SpecdeckError(
                    f"the archive cannot be read: {_first(error)}", where=str(path), fix="specdeck archive --merge"
                ) from error
        except duckdb.Error as error:
            raise SpecdeckError(
                f"not answered: {_first(error)}",
                where="the query",
                fix="specdeck query --columns lists the columns of `cells`",
            ) from error
    raise AssertionError("unreachable")


def _run(duckdb: Any, path: Path, sql: str, limit: int) -> Answer:
    files = read_index(path).files
    if not files:
        raise SpecdeckError(
            "there are no cells in this archive",
            where=str(path),
            fix="specdeck archive results/measured (or the folder that holds your runs)",
        )
    with duckdb.connect(":memory:") as db:
        db.execute(f"SET memory_limit = '{MEMORY}'")
        db.execute("SET autoinstall_known_extensions = false")
        db.execute("SET autoload_known_extensions = false")
        arrived = [str(path / file.path) for file in files if file.folder == INCOMING]
        divided = [str(path / file.path) for file in files if file.folder != INCOMING]
        sources = [_scan(paths, hive=hive) for paths, hive in ((arrived, False), (divided, True)) if paths]
        db.execute(f"CREATE VIEW cells AS {' UNION ALL BY NAME '.join(sources)}")
        db.execute("SET allowed_directories = $1", [[str(path.absolute()), str(path)]])
        db.execute("SET enable_external_access = false")
        db.execute("SET lock_configuration = true")
        found = db.execute(sql)
        columns = tuple(item[0] for item in found.description or ())
        rows = found.fetchmany(limit + 1)
    return Answer(columns, tuple(rows[:limit]), len(rows) > limit)


def _scan(paths: Sequence[str], *, hive: bool) -> str:
    quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    options = f"hive_partitioning = {str(hive).lower()}, hive_types_autocast = false"
    return f"SELECT * FROM read_parquet([{quoted}], {options})"  # noqa: S608 - names of our own files


def all_columns() -> dict[str, str]:
    """Return the columns of `cells` with their types."""
    return dict.fromkeys(PARTITION, "string") | COLUMNS


def _require_reading(duckdb: Any, sql: str) -> None:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise SpecdeckError(
            f"not SQL: {_first(error)}", where="the query", fix="write one SELECT over cells"
        ) from error
    if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise SpecdeckError(
            f"{len(statements)} statements, or one that does not read",
            where="the query",
            fix="write one SELECT over cells; results are never changed by a query",
        )


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 - large and optional
        import pyarrow as pa  # noqa: F401, PLC0415
    except ImportError as error:
        raise SpecdeckError(
            f"an archive needs duckdb and pyarrow: {error}",
            where="specdeck query",
            fix=".venv/bin/python -m pip install 'duckdb>=1.4' 'pyarrow>=20'",
        ) from error
    return duckdb


def require_libraries() -> None:
    """Raise the error of `ask` when a library is missing, before work is begun."""
    _duckdb()


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]
