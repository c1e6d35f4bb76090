"""Model overlays: a changed config.json over links to the same weights. Never copies weights."""
