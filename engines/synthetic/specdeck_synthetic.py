"""Worker extension for vLLM: changes the rates of synthetic rejection sampling while a server runs.

Loaded by `--worker-extension-cls specdeck_synthetic.SyntheticRates`, called through POST /collective_rpc.
"""

from __future__ import annotations

import json
from typing import Any


class SyntheticRates:
    """Mixed into vLLM's worker class. Names begin with specdeck_ so that none of the worker's own is hidden."""

    model_runner: Any

    def specdeck_set_acceptance_rates(self, rates: str) -> dict[str, list[float]]:
        """Accept drafts at other rates from the next step on.

        Args:
            rates: JSON list, the share of drafts whose token i is accepted, one rate for each drafted token.

        Returns:
            The conditional rates in use, `{"conditional_rates": [...]}`.

        Raises:
            ValueError: not one falling rate for each position.
            RuntimeError: this server does not sample synthetically.
        """
        asked = [float(rate) for rate in json.loads(rates)]
        if any(not 0 <= rate <= 1 for rate in asked) or sorted(asked, reverse=True) != asked:
            raise ValueError(f"rates must lie between 0 and 1 and never rise: {asked}")
        sampler = getattr(self.model_runner, "rejection_sampler", None)
        used = getattr(sampler, "synthetic_conditional_rates", None)
        if used is None:
            raise RuntimeError("this server was not started with rejection_sample_method synthetic")
        if len(asked) != len(used):
            raise ValueError(f"{len(used)} rates are in use, {len(asked)} were given")
        before = [1.0, *asked]
        conditional = [later / earlier if earlier > 0 else 0.0 for earlier, later in zip(before, asked, strict=False)]
        # In place: a captured CUDA graph reads this memory.
        used.copy_(used.new_tensor(conditional))
        return {"conditional_rates": [float(rate) for rate in used.tolist()]}
