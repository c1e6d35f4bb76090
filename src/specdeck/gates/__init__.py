"""Whether a measurement may pass: baselines, fingerprints, gates and their verdicts."""
