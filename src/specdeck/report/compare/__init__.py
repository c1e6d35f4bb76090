"""Reports of a comparison: terminal, pull-request comment, JUnit, JSON, CSV, HTML. No statistics of its own."""
