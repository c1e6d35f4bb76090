"""Recipes and plans: strict models, loading, resolving, JSON Schema. Nothing here starts or talks to an engine."""
