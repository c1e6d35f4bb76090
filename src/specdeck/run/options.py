"""What an experiment was asked to do, resolved: recipe, plan, prompts, arms, and where its servers come from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specdeck.errors import SpecdeckError
from specdeck.load import workloads
from specdeck.load.conversation import first_turn
from specdeck.load.hub import PREFIX, hub_file
from specdeck.load.prompts import Prompt, load_prompts
from specdeck.recipe import Plan, Recipe, canonical_sha256, load_plan, load_recipe
from specdeck.recipe.synthetic import parse_acceptance, parse_lengths, with_dummy_weights, with_lengths, with_synthetic
from specdeck.results.schema import SCHEMA_VERSION, Sampling
from specdeck.run.plan_changes import changed_plan
from specdeck.run.shape import Shape, one_a_request, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DEFAULT_PROMPTS = "core-10"
DEFAULT_WARMUP = "warmup"


@dataclass(frozen=True)
class Options:
    """One experiment, fully resolved.

    Attributes:
        arms: what is measured, in the plan's order.
        unavailable: arms of the plan that the engine cannot serve, with the reason the recipe gives.
        attached: arm name to base URL of a server that already runs; empty when specdeck starts the servers.
        python: interpreter that has vLLM, where the user named one.
        prompts: one a request.
        shape: when requests are due.
        trace_path: where the moments of a replayed trace come from.
        dummy_weights: whether servers get made-up weights in the shape of the recipe's checkpoints.
    """

    root: Path
    recipe: Recipe | None
    plan: Plan
    arms: tuple[str, ...]
    unavailable: dict[str, str]
    prompts_path: Path
    prompts: tuple[Prompt, ...]
    warmup_path: Path
    warmup: tuple[Prompt, ...]
    attached: dict[str, str]
    python: Path | None
    shape: Shape = field(default_factory=Shape)
    trace_path: Path | None = None
    dummy_weights: bool = False

    @property
    def recipe_name(self) -> str:
        """The recipe's name, or `attached` where a server of unknown recipe is measured."""
        return self.recipe.name if self.recipe else "attached"

    @property
    def sampling(self) -> Sampling:
        """The sampling parameters every request carries."""
        plan = self.plan
        return Sampling(
            temperature=plan.temperature,
            top_p=plan.top_p,
            top_k=plan.top_k,
            min_p=plan.min_p,
            seed=plan.seed,
            max_tokens=plan.max_tokens,
            ignore_eos=plan.ignore_eos,
            enable_thinking=plan.enable_thinking,
        )

    def fingerprint(self, provenance: dict[str, Any]) -> str:
        """Hash of everything that must be equal for cells of two starts to belong to one run (sha256 hex)."""
        parts = {
            "schema": SCHEMA_VERSION,
            "recipe": canonical_sha256(self.recipe) if self.recipe else None,
            "plan": canonical_sha256(self.plan),
            "arms": self.arms,
            "prompts": sha256_file(self.prompts_path),
            "warmup": sha256_file(self.warmup_path),
            "attached": self.attached,
            "trace": sha256_file(self.trace_path) if self.trace_path else None,
            "git": provenance.get("git"),
            "host": provenance.get("host"),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def resolve(
    root: Path,
    *,
    recipe_name: str | None,
    plan_name: str,
    arms: Sequence[str] = (),
    base_urls: Sequence[str] = (),
    prompts: str | None = None,
    python: Path | None = None,
    changes: Mapping[str, Any] | None = None,
    draft_lengths: Sequence[str] = (),
    synthetic: Sequence[str] = (),
    dummy_weights: bool = False,
) -> Options:
    """Load and check everything before anything is installed, downloaded or started.

    Args:
        root: the checkout.
        recipe_name: recipe name or path; None only with `base_urls`.
        plan_name: plan name or path.
        arms: measure only these arms of the plan.
        base_urls: `URL` or `ARM=URL` of servers that already run.
        prompts: a prompt set's name (in bench/prompts) or a JSONL file, instead of the plan's and the recipe's.
        python: interpreter that has vLLM, for recipes with the local runtime and no managed environment.
        changes: keys of the plan with other values; None leaves a key as it is.
        draft_lengths: `ARM=3,5,7`: measure a copy of the arm for each length.
        synthetic: acceptances at which drafts are accepted whatever they say (see recipe/synthetic.py).
        dummy_weights: serve shapes alone; only with `synthetic`.

    Raises:
        SpecdeckError: anything unknown, mistyped or contradictory, with the nearest valid name.
    """
    recipe = load_recipe(recipe_name) if recipe_name else None
    plan = changed_plan(load_plan(plan_name), changes or {})
    num_prompts = (changes or {}).get("limit")
    attached = _attached(base_urls, arms)
    chosen = tuple(attached) if attached else _arms(recipe, plan, arms)
    if dummy_weights and not synthetic:
        raise SpecdeckError(
            "weights that are made up accept nothing: their figures would be no drafter's",
            where="--dummy-weights",
            fix="say at which acceptance: --dummy-weights --synthetic-acceptance 4",
        )
    if draft_lengths or synthetic:
        recipe, chosen = _varied(recipe, chosen, draft_lengths, synthetic, attached=bool(attached))
        # Synthetic texts mean nothing, and so does a stop token among them.
        ends = {"ignore_eos": True} if synthetic else {}
        plan = plan.model_copy(update={"arms": chosen, **ends})
        recipe = with_dummy_weights(recipe, chosen) if dummy_weights else recipe
    reasons = {} if attached or recipe is None else {n: str(recipe.arms[n].unavailable) for n in chosen}
    unavailable = {name: why for name, why in reasons.items() if recipe and recipe.arms[name].unavailable}
    chosen = tuple(name for name in chosen if name not in unavailable)
    if not chosen:
        raise SpecdeckError(
            "none of the arms can be served: " + "; ".join(f"{name}: {why}" for name, why in unavailable.items()),
            where=f"recipe {recipe_name}",
            fix="choose another arm (specdeck recipe show NAME lists them) or another recipe",
        )
    trace_path = None if plan.trace is None else root / plan.trace
    shape = shape_of(plan, trace_path)
    if shape.seconds > plan.cell_timeout_s:
        raise SpecdeckError(
            f"the load alone takes {shape.seconds:.0f} s, a cell may take {plan.cell_timeout_s:g} s",
            where=f"plan {plan.name}",
            fix=f"write cell_timeout_s: {2 * shape.seconds:.0f} in the plan, or shorten the load",
        )
    _refuse_random_text(recipe, plan, chosen)
    prompts_name = prompts or plan.prompts or (recipe.prompts if recipe else None) or DEFAULT_PROMPTS
    warmup_name = (recipe.warmup_prompts if recipe else None) or DEFAULT_WARMUP
    prompts_path, warmup_path = prompt_file(root, prompts_name), prompt_file(root, warmup_name)
    loaded = [prompt if plan.multi_turn else first_turn(prompt) for prompt in load_prompts(prompts_path)]
    warmup = [first_turn(prompt) for prompt in load_prompts(warmup_path)]
    if num_prompts is not None and num_prompts > len(loaded):
        raise SpecdeckError(
            f"{num_prompts} prompts asked for, the set has {len(loaded)}; sending some twice would measure the cache",
            where=str(prompts_path),
            fix=f"--num-prompts {len(loaded)}, or a larger set with --prompts",
        )
    both = {p.text for p in loaded} & {p.text for p in warmup}
    if both:
        raise SpecdeckError(
            f"{len(both)} warm-up prompts are measured prompts too: the first measured request would find a warm cache",
            where=str(warmup_path),
            fix=f"remove them from {warmup_path.name}; the first is {min(both)[:60]!r}",
        )
    return Options(
        root=root,
        recipe=recipe,
        plan=plan,
        arms=chosen,
        unavailable=unavailable,
        prompts_path=prompts_path,
        prompts=one_a_request(
            _worked(limited(loaded, min(plan.limit or len(loaded), shape.requests or len(loaded))), plan),
            shape,
            repeat=plan.repeat_prompts,
            where=str(prompts_path),
        ),
        warmup_path=warmup_path,
        warmup=tuple(warmup),
        attached=attached,
        python=python,
        dummy_weights=dummy_weights,
        shape=shape,
        trace_path=trace_path,
    )


def _worked(prompts: Sequence[Prompt], plan: Plan) -> Sequence[Prompt]:
    work = plan.workload
    if work is None:
        return prompts
    return workloads.apply(prompts, work.kind, words=work.words, groups=work.groups, seed=work.seed)


def _refuse_random_text(recipe: Recipe | None, plan: Plan, arms: Sequence[str]) -> None:
    """A drafter meets random text with another acceptance than any real text: a comparison on it misleads.

    Raises:
        SpecdeckError: an arm drafts, or several arms are compared of which nobody knows whether they do.
    """
    work = plan.workload
    if work is None or work.kind != "random" or work.with_drafters:
        return
    drafting = [name for name in arms if recipe is not None and recipe.arms[name].method is not None]
    if recipe is None and len(arms) > 1:
        drafting = list(arms)
    if drafting:
        raise SpecdeckError(
            f"random text for {', '.join(drafting)}: what a drafter gets accepted on random text says nothing",
            where=f"plan {plan.name}, key workload",
            fix="measure real prompts (remove workload), or write with_drafters: true there if that is what you want",
        )


def limited(prompts: Sequence[Prompt], limit: int | None) -> list[Prompt]:
    """Take `limit` prompts, the categories in turn, so that a short run still covers all of them."""
    if limit is None or limit >= len(prompts):
        return list(prompts)
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    ranked = sorted(
        (
            (place, number, prompt)
            for number, group in enumerate(by_category.values())
            for place, prompt in enumerate(group)
        ),
        key=lambda item: item[:2],
    )
    return [prompt for _, _, prompt in ranked[:limit]]


def prompt_file(root: Path, name: str) -> Path:
    """Return the path of a prompt set: a name in bench/prompts, a path to a JSONL, JSON or CSV file, or one on the hub.

    Raises:
        SpecdeckError: there is none of that name.
    """
    if name.startswith(PREFIX):
        return hub_file(name)
    path = root / "bench" / "prompts" / f"{name}.jsonl"
    if path.is_file():
        return path
    direct = root / name
    if direct.suffix in {".jsonl", ".json", ".csv"} and direct.is_file():
        return direct
    known = sorted(p.stem for p in (root / "bench" / "prompts").glob("*.jsonl"))
    raise SpecdeckError(
        f"no prompt set called {name!r}",
        where=str(path),
        fix=f"use one of {', '.join(known)}, the path of a .jsonl, .json or .csv file, or hf:OWNER/NAME@COMMIT:FILE",
    )


def sha256_file(path: Path) -> str:
    """Sha256 of a file's bytes, hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _attached(base_urls: Sequence[str], arms: Sequence[str]) -> dict[str, str]:
    attached: dict[str, str] = {}
    for number, word in enumerate(base_urls):
        name, separator, url = word.partition("=")
        if not separator or "://" in name:
            name, url = (arms[number] if number < len(arms) else "server"), word
        if name in attached:
            raise SpecdeckError(
                f"two servers are given for the arm {name!r}",
                where="--base-url",
                fix="name each arm: --base-url none=http://127.0.0.1:8000 --base-url mtp=http://127.0.0.1:8001",
            )
        attached[name] = url
    return attached


def _varied(
    recipe: Recipe | None, arms: tuple[str, ...], lengths: Sequence[str], synthetic: Sequence[str], *, attached: bool
) -> tuple[Recipe, tuple[str, ...]]:
    if recipe is None or attached:
        raise SpecdeckError(
            "a running server keeps its draft length and its way of accepting drafts",
            where="--base-url",
            fix="name a recipe and leave --base-url out, or leave --num-speculative-tokens and --synthetic-acceptance",
        )
    recipe, arms = with_lengths(recipe, arms, parse_lengths(lengths, recipe))
    if synthetic:
        arms = tuple(name for name in arms if not recipe.arms[name].unavailable)
        recipe, arms = with_synthetic(recipe, arms, [parse_acceptance(text) for text in dict.fromkeys(synthetic)])
    return recipe, arms


def _arms(recipe: Recipe | None, plan: Plan, only: Sequence[str]) -> tuple[str, ...]:
    if recipe is None:
        raise SpecdeckError(
            "there is neither a recipe to serve nor a server to measure",
            fix="specdeck bench tiny-next-cpu, or specdeck bench --base-url http://127.0.0.1:8000",
        )
    asked = tuple(only) or tuple(plan.arms)
    unknown = [name for name in asked if name not in recipe.arms]
    if unknown:
        raise SpecdeckError(
            f"recipe {recipe.name} has no arm {unknown[0]!r}",
            where=f"plan {plan.name}" if not only else "--arm",
            fix=f"use arms of the recipe: {', '.join(recipe.arms)}",
        )
    return asked
