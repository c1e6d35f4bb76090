"""Reports from a summary: terminal, Markdown, CSV, PNG, HTML. No statistics of its own."""
