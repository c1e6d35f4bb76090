"""Pure statistics over results: no I/O, no clock, no network."""
