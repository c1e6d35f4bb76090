"""The experiment: arms, rounds and cells in order, validity, provenance, resuming. No statistics."""
