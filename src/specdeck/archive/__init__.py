"""Cells of many runs as one table: Parquet files by recipe and arm, asked in SQL. Only this folder needs duckdb.

It copies what result folders say and never judges; a run's own folder stays the record.
"""
