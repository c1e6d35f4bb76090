"""The load generator: prompts, schedules, streams, request records. It never reads a recipe."""
