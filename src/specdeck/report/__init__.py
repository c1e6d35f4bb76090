"""Reports from a summary: terminal, Markdown, CSV, PNG, HTML. No statistics of its own."""

from specdeck.report.write import write_all

__all__ = ["write_all"]
