"""Everything a rule may look at: one arm of a resolved recipe, the engine versions it admits, and known facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.version import Version  # noqa: TC002 - dataclasses read annotations

from specdeck.checkpoint import CheckpointFacts
from specdeck.recipe.hardware import CAPABILITY_OF_CLASS
from specdeck.recipe.models import Arm, Recipe, Serve  # noqa: TC001
from specdeck.rules.facts import HostFacts
from specdeck.rules.model import need
from specdeck.rules.versions import admitted

if TYPE_CHECKING:
    from specdeck.recipe.yamlfile import KeyPath


@dataclass(frozen=True)
class Context:
    """One arm of a recipe with all that is known about it."""

    recipe: Recipe
    arm_name: str
    versions: tuple[Version, ...]
    target: CheckpointFacts
    drafter: CheckpointFacts | None = None
    host: HostFacts = field(default_factory=HostFacts)

    @property
    def arm(self) -> Arm:
        """The arm."""
        return self.recipe.arms[self.arm_name]

    @property
    def serve(self) -> Serve:
        """The arm's serving options, the recipe's included."""
        return self.recipe.serve_of(self.arm_name)

    @property
    def method(self) -> str | None:
        """`mtp`, `dflash` or None."""
        return self.arm.method

    @property
    def draft_tokens(self) -> int:
        """Tokens drafted per step; 0 without a drafter."""
        return self.arm.num_speculative_tokens or 0

    @property
    def cuda(self) -> bool:
        """Whether the recipe is for CUDA."""
        return self.recipe.hardware.device == "cuda"

    @property
    def tensor_parallel(self) -> int:
        """GPUs that one layer is split over."""
        return self.serve.tensor_parallel_size or 1

    @property
    def capability(self) -> tuple[int, int] | None:
        """Compute capability of the GPUs: this machine's, else that of the recipe's hardware class."""
        if self.host.capabilities:
            return min(self.host.capabilities)
        return CAPABILITY_OF_CLASS.get(self.recipe.hardware.class_)

    @property
    def fp8_kv(self) -> bool:
        """Whether the KV cache holds FP8 values."""
        return (self.serve.kv_cache_dtype or "").startswith("fp8")

    @property
    def custom_all_reduce(self) -> bool:
        """Whether vLLM may use its own all-reduce: several GPUs in one node, and not switched off."""
        inside = self.cuda and self.tensor_parallel > 1 and self.recipe.hardware.link != "network"
        return inside and not self.serve.disable_custom_all_reduce

    def family(self) -> str:
        """Return the target's family.

        Raises:
            NotKnown: neither config.json nor the recipe names an architecture that is known.
        """
        return need(self.target.family, "target.architecture")

    def hybrid(self) -> bool:
        """Return whether the target keeps recurrent states.

        Raises:
            NotKnown: as for family.
        """
        return need(self.target.hybrid, "target.architecture")

    def sm(self) -> tuple[int, int]:
        """Return the compute capability.

        Raises:
            NotKnown: the hardware class is not one of those known, and the machine was not looked at.
        """
        return need(self.capability, "host.compute_capability")

    def key(self, *path: str) -> KeyPath:
        """Return the place of a serving option: the arm's own where the arm sets it, else the recipe's."""
        own: Any = self.arm.serve
        for part in path:
            own = own.get(part) if isinstance(own, dict) else getattr(own, part, None)
        return ("arms", self.arm_name, "serve", *path) if own is not None else ("serve", *path)

    def arm_key(self, *path: str) -> KeyPath:
        """Return the place of a key of the arm."""
        return ("arms", self.arm_name, *path)

    def option(self, name: str) -> Any:
        """Return an option of `serve.extra`, in either spelling."""
        extra = self.serve.extra
        return extra.get(name, extra.get(name.replace("_", "-")))

    def extra_key(self, name: str) -> KeyPath:
        """Return the place of an option of `serve.extra`, in the spelling used."""
        return self.key("extra", name if name in self.serve.extra else name.replace("_", "-"))


def context_of(
    recipe: Recipe,
    arm_name: str,
    *,
    target: CheckpointFacts | None = None,
    drafter: CheckpointFacts | None = None,
    host: HostFacts | None = None,
    engine: Version | None = None,
) -> Context:
    """Build the context of an arm; `engine` is the exact version installed, where that is known."""
    stated = CheckpointFacts(recipe.target.where, architecture=recipe.target.architecture)
    second = recipe.drafter
    return Context(
        recipe=recipe,
        arm_name=arm_name,
        versions=(engine,) if engine else admitted(recipe.engine.vllm),
        target=target or stated,
        drafter=drafter or (CheckpointFacts(second.where, architecture=second.architecture) if second else None),
        host=host or HostFacts(),
    )
