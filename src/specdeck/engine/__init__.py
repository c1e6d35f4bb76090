"""The engine: its command, its environment, its runtimes and the proof that it serves what was asked. No measuring."""
