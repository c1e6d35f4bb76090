"""Small Python functions: the most regular category of the grammar.

Each builder returns the request, a reference program and the reply (the same program). Answers are compared
by running both on small inputs, after a check that the program uses nothing but the syntax the grammar has.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .words import rule, skewed, words

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

ITEMS = {
    "prices": "price",
    "scores": "score",
    "ages": "age",
    "weights": "weight",
    "heights": "height",
    "values": "value",
    "points": "point",
    "distances": "distance",
    "grades": "grade",
    "levels": "level",
    "counts": "count",
    "steps": "step",
    "lengths": "length",
    "rates": "rate",
    "years": "year",
    "temps": "temp",
}
TESTS = {
    "above {k}": (">", "<"),
    "below {k}": ("<", ">"),
    "of at least {k}": (">=", "<="),
    "of at most {k}": ("<=", ">="),
    "other than {k}": ("!=", "!="),
    "divisible by {k}": ("%", "%"),
}
MAPS = {
    "multiplied by {k}": "{v} * {k}",
    "plus {k}": "{v} + {k}",
    "minus {k}": "{v} - {k}",
    "divided by {k}, rounded down": "{v} // {k}",
    "modulo {k}": "{v} % {k}",
}
OUTS = words("result kept found out picked selected chosen answer")
TOTALS = words("total acc amount tally running value_sum")
KEEP_NOTES = ("Return all", "Give the", "List the", "Collect all", "Only the")
MAP_NOTES = ("Return every", "Give each", "Take each", "Every", "Each")
KEEP_VERBS = words("keep select filter pick find choose")
MAP_VERBS = words("change adjust convert update shift scale")
SUM_VERBS = ("sum", "add", "total", "collect")
ASKS = ("Write a Python function", "Give me a function", "Please write a function", "I need a Python function")


def _start(rng: random.Random, verbs: Sequence[str]) -> tuple[str, str, str, str]:
    """Function name, its argument, the loop variable and the beginning of the request."""
    items, verb = rng.choice(sorted(ITEMS)), rng.choice(verbs)
    singular = ITEMS[items]
    item = rule("item", items + verb, (singular, singular, singular[0], "item", "x"))
    return f"{verb}_{items}", items, item, f"{rng.choice(ASKS)} {verb}_{items}({items})"


def _test(rng: random.Random, items: str, item: str) -> tuple[str, str]:
    """A test in words and in code; which side the constant stands on is a matter of habit."""
    test, k = rng.choice(sorted(TESTS)), rng.randint(2, 60)
    order = rule("order", items + test, ("{v} {o} {k}", "{k} {r} {v}"))
    if "%" in TESTS[test][0]:
        order = rule("order", items + test, ("{v} % {k} == 0", "0 == {v} % {k}"))
    forward, reverse = TESTS[test]
    return test.format(k=k), order.format(v=item, k=k, o=forward, r=reverse)


def keep(rng: random.Random) -> tuple[str, str, str]:
    """Filter a list by a test against a constant."""
    name, items, item, ask = _start(rng, KEEP_VERBS)
    phrase, test = _test(rng, items, item)
    out = rule("out", name, OUTS)
    reply = (
        f'def {name}({items}):\n    """{rule("note", name, KEEP_NOTES)} {items} {phrase}."""\n    {out} = []\n'
        f"    for {item} in {items}:\n        if {test}:\n            {out}.append({item})\n    return {out}"
    )
    return f"{ask} that returns all {items} {phrase}.", reply, reply


def remap(rng: random.Random) -> tuple[str, str, str]:
    """Apply an operation with a constant to every element."""
    name, items, item, ask = _start(rng, MAP_VERBS)
    op, k = rng.choice(sorted(MAPS)), rng.randint(2, 60)
    phrase, out = op.format(k=k), rule("out", name, OUTS)
    value = rule("value", items + op, ("new", "changed", "moved", "y"))
    reply = (
        f'def {name}({items}):\n    """{rule("note", name, MAP_NOTES)} {ITEMS[items]} {phrase}."""\n    {out} = []\n'
        f"    for {item} in {items}:\n        {value} = {MAPS[op].format(v=item, k=k)}\n"
        f"        {out}.append({value})\n    return {out}"
    )
    return f"{ask} that returns every {ITEMS[items]} {phrase}.", reply, reply


def total(rng: random.Random) -> tuple[str, str, str]:
    """Sum the elements that pass a test."""
    name, items, item, ask = _start(rng, SUM_VERBS)
    phrase, test = _test(rng, items, item)
    acc = rule("acc", name, TOTALS)
    note = skewed(rng, f"Sum of the {items} {phrase}.", f"The {items} {phrase}, summed.")
    reply = (
        f'def {name}({items}):\n    """{note}"""\n    {acc} = 0\n    for {item} in {items}:\n'
        f"        if {test}:\n            {acc} += {item}\n    return {acc}"
    )
    return f"{ask} that adds up the {items} {phrase}.", reply, reply


BUILDERS = (keep, remap, total)

_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.For, ast.If, ast.Return,
    ast.Expr, ast.Constant, ast.Name, ast.Load, ast.Store, ast.List, ast.Call, ast.Attribute, ast.Compare, ast.BinOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.cmpop,
)  # fmt: skip
_INPUTS = ((), (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 60), (60, 45, 30, 15, 12, 7, 59, 41, 29, 24, 36))


def _function(source: str) -> ast.FunctionDef | None:
    """The single function of `source`, or None when it holds anything that the grammar cannot produce.

    What passes is one loop over the argument with integer arithmetic on the loop variable and on counters, so
    running it is safe and short.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = list(ast.walk(tree))
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef) or len(nodes) > 100:
        return None
    loops = [node for node in nodes if isinstance(node, ast.For)]
    assigns = [node for node in nodes if isinstance(node, ast.Assign)]
    names = [(target.id, isinstance(node.value, ast.List)) for node in assigns for target in node.targets
             if isinstance(target, ast.Name)]  # fmt: skip
    lists = {name for name, is_list in names if is_list} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    integers = {name for name, is_list in names if not is_list}
    integers |= {node.target.id for node in loops if isinstance(node.target, ast.Name)}
    if lists & integers:
        return None

    def integral(node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return integral(node.left) and integral(node.right)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int) and abs(node.value) < 10_000
        return isinstance(node, ast.Name) and node.id in integers

    for node in nodes:
        if isinstance(node, ast.Assign):
            fine = integral(node.value) or (isinstance(node.value, ast.List) and not node.value.elts)
        elif isinstance(node, ast.AugAssign):
            fine = isinstance(node.op, ast.Add | ast.Sub) and integral(node.target) and integral(node.value)
        elif isinstance(node, ast.BinOp):
            fine = integral(node)
        elif isinstance(node, ast.Attribute):
            fine = node.attr == "append"
        elif isinstance(node, ast.Call):
            fine = isinstance(node.func, ast.Attribute) and all(integral(argument) for argument in node.args)
        elif isinstance(node, ast.For):
            fine = isinstance(node.iter, ast.Name) and len(loops) == 1
        else:
            fine = isinstance(node, _ALLOWED)
        if not fine:
            return None
    return tree.body[0]


def _outputs(source: str) -> tuple[str, list[object]] | None:
    """Function name and its results on the fixed inputs, or None when it is not runnable."""
    function = _function(source)
    if function is None:
        return None
    scope: dict[str, object] = {"__builtins__": {}}
    try:
        exec(compile(ast.Module([function], []), "answer", "exec"), scope)  # noqa: S102 - checked by _function
        # The inputs are tuples: appending to what it loops over would never end.
        results = [scope[function.name](numbers) for numbers in _INPUTS]  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - whatever a wrong answer raises, it is a wrong answer
        return None
    return function.name, results


def same_function(source: str, reference: str) -> bool:
    """Whether both programs define a function of the same name that returns the same on all test inputs."""
    expected = _outputs(reference)
    return expected is not None and _outputs(source) == expected
