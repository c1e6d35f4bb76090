"""specdeck serves large models with a speculative drafter on vLLM and measures whether the drafter helps."""

__version__ = "0.1.0"
