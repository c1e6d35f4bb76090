"""`specdeck tables`: the tables inside README and docs, made again from committed files."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("tables")(tables)


def tables(
    check: bool = typer.Option(False, "--check", help="Write nothing; fail when a table is not what its files say."),
) -> None:
    """Fill every generated table of README and docs. Exit code 1 with --check when one has drifted."""
    from specdeck.errors import EXIT_FAILED, SpecdeckError  # noqa: PLC0415 - `--help` must not pay for numpy
    from specdeck.paths import repo_root  # noqa: PLC0415
    from specdeck.report.generated import documents, filled  # noqa: PLC0415
    from specdeck.results.atomic import replace_file, storing  # noqa: PLC0415

    root = repo_root()
    drifted = []
    for path in documents(root):
        _, text, blocks = filled(root, path)
        where = path.relative_to(root).as_posix()
        drifted += [f"{where}:{block.line}: {block.name} {block.argument}".rstrip() for block in blocks]
        if blocks and not check:
            with storing("the document", path):
                replace_file(path, text.encode())
    if check and drifted:
        raise SpecdeckError(
            "\n".join(["these tables differ from what they are made from:", *(f"  {line}" for line in drifted)]),
            where=drifted[0].partition(": ")[0],
            fix="specdeck tables",
            exit_code=EXIT_FAILED,
        )
    for line in drifted:
        typer.echo(f"written: {line}")
