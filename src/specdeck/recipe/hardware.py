"""What a hardware class of a recipe is known to be, without looking at a machine."""

from __future__ import annotations

# CUDA compute capability, by class.
CAPABILITY_OF_CLASS = {
    "rtx3090": (8, 6),
    "rtx4090": (8, 9),
    "rtx5090": (12, 0),
    "rtxpro6000": (12, 0),
    "gb10": (12, 1),
    "a100-40g": (8, 0),
    "a100-80g": (8, 0),
    "h100-80g": (9, 0),
    "h200": (9, 0),
    "b200": (10, 0),
}
