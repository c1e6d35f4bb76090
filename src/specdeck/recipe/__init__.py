"""Recipes and plans: strict models, loading, resolving, JSON Schema. Nothing here starts or talks to an engine."""

from specdeck.recipe.load import canonical_sha256, list_plans, list_recipes, load_plan, load_recipe
from specdeck.recipe.models import Arm, Checkpoint, Recipe, Serve
from specdeck.recipe.plan import Plan

__all__ = [
    "Arm",
    "Checkpoint",
    "Plan",
    "Recipe",
    "Serve",
    "canonical_sha256",
    "list_plans",
    "list_recipes",
    "load_plan",
    "load_recipe",
]
