"""Renders a plan for a terminal: memory line by line with its basis, then the pool, then what is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdeck.planner.memory import Amount
    from specdeck.planner.plan import ArmPlan


def render(plan: ArmPlan) -> str:
    """Return the plan of one arm as lines of text."""
    method = f"{plan.method}, n={plan.draft_tokens}" if plan.method else "no drafter"
    lines = [f"{plan.arm} ({method})"]
    if plan.budget:
        lines.append(_amount(plan.budget))
    lines += [_amount(amount) for amount in plan.memory]
    if plan.token_bytes:
        parts = ", ".join(f"{name} {size:,}" for name, size in plan.token_bytes.items())
        lines.append(f"  {'KV bytes per token':<27}{sum(plan.token_bytes.values()):>14,}   {parts}")
    if plan.state_bytes:
        lines.append(f"  {'recurrent state':<27}{plan.state_bytes:>14,}   bytes a state of one sequence, all layers")
    if plan.block_tokens:
        lines.append(f"  {'attention block':<27}{plan.block_tokens:>14,}   tokens")
    if plan.pools:
        low, middle, high = plan.pools
        lines.append(f"  {'KV cache':<27}{_range(low.memory_gib, middle.memory_gib, high.memory_gib)}")
        lines.append(
            f"  {'pool':<27}{_whole(low.tokens, middle.tokens, high.tokens)} tokens, as the engine counts them"
        )
        lines.append(
            f"  {'requests of ' + format(plan.context, ','):<27}{_whole(low.requests, middle.requests, high.requests)}"
        )
    lines.append(f"  fits: {plan.fits}")
    lines += [f"  would fit with: {change}" for change in plan.changes]
    lines += [f"  not known: {name}" for name in plan.unknown]
    lines += [f"  assumed: {name}" for name in plan.assumed]
    return "\n".join(lines)


def _amount(amount: Amount) -> str:
    return f"  {amount.name:<27}{_range(amount.low, amount.expected, amount.high)}   {amount.basis}"


def _range(low: float, middle: float, high: float) -> str:
    text = f"{middle:>10.2f} GiB"
    return text if high - low < 0.01 else f"{text} ({low:.2f} to {high:.2f})"


def _whole(low: int, middle: int, high: int) -> str:
    return f"{middle:>14,}" if low == high else f"{middle:>14,} ({low:,} to {high:,})"
