"""The one error a user sees: what was wrong, where, and what to do about it.

Exit codes: 0 good, 1 failed or regressed, 2 could not be measured or used wrongly.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNMEASURABLE = 2


class SpecdeckError(Exception):
    """A failure that the person at the terminal can act on.

    Args:
        what: what was wrong, one or more lines, without a trailing period where a value ends it.
        where: file, line, key, URL or process it concerns.
        fix: a command to run or an edit to make.
        exit_code: the process exit status this failure means.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        exit_code: int = EXIT_UNMEASURABLE,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.exit_code = exit_code

    def __str__(self) -> str:
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"  at: {self.where}")
        if self.fix:
            lines.append(f"  Fix: {self.fix}")
        return "\n".join(lines)
