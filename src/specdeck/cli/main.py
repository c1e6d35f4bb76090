"""`specdeck`: collects the commands and turns every ending into an exit code and a readable message."""

from __future__ import annotations

import errno
import os
import sys

import typer

from specdeck import __version__
from specdeck.cli.commands import CommandsOnDemand
from specdeck.errors import EXIT_UNMEASURABLE, SpecdeckError

app = typer.Typer(
    name="specdeck",
    cls=CommandsOnDemand,
    help="Serve models with a speculative drafter on vLLM, and measure whether the drafter helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"specdeck {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Serve models with a speculative drafter on vLLM, and measure whether the drafter helps."""


def main() -> int:
    """Run the command line and return its exit status: 0 good, 1 failed or regressed, 2 unmeasurable or misused."""
    try:
        app()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_UNMEASURABLE
    except SpecdeckError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the one place where errors reach the terminal
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_UNMEASURABLE
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but Python must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNMEASURABLE
    except OSError as error:
        print(_from_os(error), file=sys.stderr)  # noqa: T201
        return EXIT_UNMEASURABLE
    return 0


def _from_os(error: OSError) -> SpecdeckError:
    where = str(error.filename) if error.filename else None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SpecdeckError(
            "the disk is full",
            where=where,
            fix="free some space (df -h .), then run the same command again: a run resumes",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SpecdeckError(
            f"not permitted: {error.strerror}", where=where, fix="check the owner and mode of that path (ls -l)"
        )
    return SpecdeckError(f"{error.strerror or error}", where=where, fix="see the message; run `specdeck --help`")
